      *> Changes every 200-byte record of a file in its place:
      *>     record-rewrite FILE
      *> Its first nine characters become the record's number. Read, change and REWRITE in turns is
      *> what a nightly update does.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. RECORD-REWRITE.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT THE-FILE ASSIGN TO DYNAMIC FILE-NAME
               ORGANIZATION IS SEQUENTIAL.
       DATA DIVISION.
       FILE SECTION.
       FD THE-FILE.
       01 THE-RECORD.
          05 RECORD-NUMBER PIC 9(9).
          05 FILLER PIC X(191).
       WORKING-STORAGE SECTION.
       01 FILE-NAME PIC X(4096).
       01 RECORDS-READ PIC 9(9) VALUE 0.
       01 AT-END-OF-FILE PIC 9 VALUE 0.
       PROCEDURE DIVISION.
           ACCEPT FILE-NAME FROM ARGUMENT-VALUE
           OPEN I-O THE-FILE
           PERFORM UNTIL AT-END-OF-FILE = 1
               READ THE-FILE
                   AT END MOVE 1 TO AT-END-OF-FILE
                   NOT AT END
                       ADD 1 TO RECORDS-READ
                       MOVE RECORDS-READ TO RECORD-NUMBER
                       REWRITE THE-RECORD
               END-READ
           END-PERFORM
           CLOSE THE-FILE
           DISPLAY "REWRITTEN " RECORDS-READ
           STOP RUN.
