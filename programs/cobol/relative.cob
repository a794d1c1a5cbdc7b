      *> A RELATIVE file: written in order, then read, rewritten and deleted at random.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. RELATIVES.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT THE-FILE ASSIGN TO "relative.dat"
               ORGANIZATION IS RELATIVE
               ACCESS MODE IS DYNAMIC
               RELATIVE KEY IS THE-KEY
               FILE STATUS IS THE-STATUS.
       DATA DIVISION.
       FILE SECTION.
       FD THE-FILE.
       01 REC.
          05 REC-NUMBER PIC 9(9).
          05 REC-TEXT PIC X(91).
       WORKING-STORAGE SECTION.
       01 THE-KEY PIC 9(9).
       01 THE-STATUS PIC XX.
       01 SEED PIC 9(9) VALUE 12345.
       01 BIG PIC 9(18).
       01 QUOT PIC 9(18).
       01 TOTAL PIC 9(18) VALUE 0.
       01 AT-END-FLAG PIC 9 VALUE 0.
       01 COUNTED PIC 9(9) VALUE 0.
       PROCEDURE DIVISION.
           OPEN OUTPUT THE-FILE
           PERFORM VARYING THE-KEY FROM 1 BY 1 UNTIL THE-KEY > 3000
               MOVE THE-KEY TO REC-NUMBER
               MOVE "RELATIVE RECORD" TO REC-TEXT
               WRITE REC
           END-PERFORM
           CLOSE THE-FILE
           OPEN I-O THE-FILE
           PERFORM 2000 TIMES
               COMPUTE BIG = SEED * 1103 + 12345
               DIVIDE BIG BY 99991 GIVING QUOT REMAINDER SEED
               DIVIDE SEED BY 3100 GIVING QUOT REMAINDER THE-KEY
               ADD 1 TO THE-KEY
               READ THE-FILE
                   INVALID KEY ADD 1 TO TOTAL
                   NOT INVALID KEY
                       ADD REC-NUMBER TO TOTAL
                       IF REC-NUMBER < 1000
                           MOVE "REWRITTEN" TO REC-TEXT
                           REWRITE REC
                       END-IF
                       IF REC-NUMBER > 2900
                           DELETE THE-FILE
                       END-IF
               END-READ
           END-PERFORM
           MOVE 10 TO THE-KEY
           START THE-FILE KEY IS GREATER THAN THE-KEY
           PERFORM UNTIL AT-END-FLAG = 1
               READ THE-FILE NEXT AT END MOVE 1 TO AT-END-FLAG
                   NOT AT END
                       ADD 1 TO COUNTED
                       ADD REC-NUMBER TO TOTAL
               END-READ
           END-PERFORM
           CLOSE THE-FILE
           DISPLAY "TOTAL " TOTAL " NEXT " COUNTED " " THE-STATUS
           STOP RUN.
