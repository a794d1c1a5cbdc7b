      *> Reads a sequential file for update and REWRITEs every third record, then extends it.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. REWRITES.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT THE-FILE ASSIGN TO "update.dat"
               ORGANIZATION IS SEQUENTIAL
               FILE STATUS IS THE-STATUS.
       DATA DIVISION.
       FILE SECTION.
       FD THE-FILE.
       01 REC.
          05 REC-TEXT PIC X(72).
          05 REC-MARK PIC X(8).
       WORKING-STORAGE SECTION.
       01 THE-STATUS PIC XX.
       01 AT-END-FLAG PIC 9 VALUE 0.
       01 COUNTED PIC 9(9) VALUE 0.
       01 QUOT PIC 9(9).
       01 REST PIC 9(9).
       PROCEDURE DIVISION.
           OPEN I-O THE-FILE
           PERFORM UNTIL AT-END-FLAG = 1
               READ THE-FILE AT END MOVE 1 TO AT-END-FLAG
                   NOT AT END
                       ADD 1 TO COUNTED
                       DIVIDE COUNTED BY 3 GIVING QUOT REMAINDER REST
                       IF REST = 0
                           MOVE "CHANGED" TO REC-MARK
                           REWRITE REC
                           IF THE-STATUS NOT = "00"
                               DISPLAY "STATUS " THE-STATUS
                           END-IF
                       END-IF
               END-READ
           END-PERFORM
           CLOSE THE-FILE
           DISPLAY "READ " COUNTED " STATUS " THE-STATUS
           OPEN EXTEND THE-FILE
           PERFORM 1000 TIMES
               MOVE "EXTENDED" TO REC-TEXT
               MOVE "ADDED" TO REC-MARK
               WRITE REC
           END-PERFORM
           CLOSE THE-FILE
           DISPLAY "STATUS " THE-STATUS
           STOP RUN.
