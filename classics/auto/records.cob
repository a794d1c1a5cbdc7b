      *> Reads, writes or copies a file by records of one size, as records.c does:
      *>     records read FROM | write TO BYTES | copy FROM TO
      *> The size is a word to be replaced before compiling.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. RECORDS.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT SOURCE-FILE ASSIGN TO DYNAMIC SOURCE-NAME
               ORGANIZATION IS SEQUENTIAL.
           SELECT TARGET-FILE ASSIGN TO DYNAMIC TARGET-NAME
               ORGANIZATION IS SEQUENTIAL.
       DATA DIVISION.
       FILE SECTION.
       FD SOURCE-FILE.
       01 SOURCE-RECORD PIC X(RECORD-BYTES).
       FD TARGET-FILE.
       01 TARGET-RECORD PIC X(RECORD-BYTES).
       WORKING-STORAGE SECTION.
       01 WHAT PIC X(8).
       01 SOURCE-NAME PIC X(4096).
       01 TARGET-NAME PIC X(4096).
       01 TOTAL PIC X(20).
       01 RECORD-COUNT BINARY-DOUBLE VALUE 0.
       01 AT-END-OF-SOURCE PIC 9 VALUE 0.
       PROCEDURE DIVISION.
           ACCEPT WHAT FROM ARGUMENT-VALUE
           IF WHAT = "write"
               ACCEPT TARGET-NAME FROM ARGUMENT-VALUE
               ACCEPT TOTAL FROM ARGUMENT-VALUE
               OPEN OUTPUT TARGET-FILE
               COMPUTE RECORD-COUNT = FUNCTION NUMVAL(TOTAL) / RECORD-BYTES
               MOVE ALL "record " TO TARGET-RECORD
               PERFORM RECORD-COUNT TIMES
                   WRITE TARGET-RECORD
               END-PERFORM
               CLOSE TARGET-FILE
               STOP RUN
           END-IF
           ACCEPT SOURCE-NAME FROM ARGUMENT-VALUE
           OPEN INPUT SOURCE-FILE
           IF WHAT = "copy"
               ACCEPT TARGET-NAME FROM ARGUMENT-VALUE
               OPEN OUTPUT TARGET-FILE
           END-IF
           PERFORM UNTIL AT-END-OF-SOURCE = 1
               READ SOURCE-FILE
                   AT END MOVE 1 TO AT-END-OF-SOURCE
                   NOT AT END
                       ADD 1 TO RECORD-COUNT
                       IF WHAT = "copy"
                           WRITE TARGET-RECORD FROM SOURCE-RECORD
                       END-IF
               END-READ
           END-PERFORM
           CLOSE SOURCE-FILE
           IF WHAT = "copy"
               CLOSE TARGET-FILE
           ELSE
               DISPLAY RECORD-COUNT
           END-IF
           STOP RUN.
