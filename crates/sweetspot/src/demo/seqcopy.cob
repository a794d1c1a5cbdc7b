      *> Copies a file of 200-byte records, record by record: what a
      *> nightly batch job does. The names of both files come from the
      *> environment: SEQCOPY_IN and SEQCOPY_OUT.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. SEQCOPY.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT IN-FILE ASSIGN TO IN-NAME
               ORGANIZATION IS SEQUENTIAL
               FILE STATUS IS IN-STATUS.
           SELECT OUT-FILE ASSIGN TO OUT-NAME
               ORGANIZATION IS SEQUENTIAL
               FILE STATUS IS OUT-STATUS.
       DATA DIVISION.
       FILE SECTION.
       FD  IN-FILE.
       01  IN-RECORD               PIC X(200).
       FD  OUT-FILE.
       01  OUT-RECORD              PIC X(200).
       WORKING-STORAGE SECTION.
       01  IN-NAME                 PIC X(1024).
       01  OUT-NAME                PIC X(1024).
       01  IN-STATUS               PIC XX.
       01  OUT-STATUS              PIC XX.
       PROCEDURE DIVISION.
       MAIN-PARAGRAPH.
           ACCEPT IN-NAME FROM ENVIRONMENT "SEQCOPY_IN".
           ACCEPT OUT-NAME FROM ENVIRONMENT "SEQCOPY_OUT".
           OPEN INPUT IN-FILE.
           IF IN-STATUS NOT = "00"
               DISPLAY "seqcopy: cannot open the input: status "
                   IN-STATUS UPON SYSERR
               MOVE 1 TO RETURN-CODE
               STOP RUN
           END-IF.
           OPEN OUTPUT OUT-FILE.
           IF OUT-STATUS NOT = "00"
               DISPLAY "seqcopy: cannot open the output: status "
                   OUT-STATUS UPON SYSERR
               MOVE 1 TO RETURN-CODE
               STOP RUN
           END-IF.
           READ IN-FILE.
           PERFORM UNTIL IN-STATUS NOT = "00"
               WRITE OUT-RECORD FROM IN-RECORD
               IF OUT-STATUS NOT = "00"
                   DISPLAY "seqcopy: cannot write: status "
                       OUT-STATUS UPON SYSERR
                   MOVE 1 TO RETURN-CODE
                   STOP RUN
               END-IF
               READ IN-FILE
           END-PERFORM.
           IF IN-STATUS NOT = "10"
               DISPLAY "seqcopy: cannot read: status "
                   IN-STATUS UPON SYSERR
               MOVE 1 TO RETURN-CODE
           END-IF.
           CLOSE IN-FILE.
           CLOSE OUT-FILE.
           IF OUT-STATUS NOT = "00"
               DISPLAY "seqcopy: cannot close the output: status "
                   OUT-STATUS UPON SYSERR
               MOVE 1 TO RETURN-CODE
           END-IF.
           STOP RUN.
