      *> Reads records of a RELATIVE file by number, each as likely as the others:
      *>     relative-read RECORDS READS FILE REPORT
      *> RECORDS is how many the file has. Buffering cannot help here: it is to show that it does no
      *> harm. What is reported depends on every record that was read.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. RELATIVE-READ.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT THE-FILE ASSIGN TO DYNAMIC FILE-NAME
               ORGANIZATION IS RELATIVE
               ACCESS MODE IS RANDOM
               RELATIVE KEY IS THE-KEY.
           SELECT REPORT-FILE ASSIGN TO DYNAMIC REPORT-NAME
               ORGANIZATION IS LINE SEQUENTIAL.
       DATA DIVISION.
       FILE SECTION.
       FD THE-FILE.
       01 THE-RECORD.
          05 RECORD-NUMBER PIC 9(9).
          05 FILLER PIC X(191).
       FD REPORT-FILE.
       01 REPORT-LINE.
          05 FILLER PIC X(6).
          05 REPORT-TOTAL PIC 9(18).
          05 FILLER PIC X(7).
          05 REPORT-WRONG PIC 9(9).
       WORKING-STORAGE SECTION.
       01 NUMBER-TEXT PIC X(18).
       01 FILE-NAME PIC X(4096).
       01 REPORT-NAME PIC X(4096).
       01 RECORD-COUNT PIC 9(9) COMP-5.
       01 READ-COUNT PIC 9(9) COMP-5.
       01 THE-KEY PIC 9(9).
       01 WRONG PIC 9(9) VALUE 0.
       01 TOTAL PIC 9(18) VALUE 0.
      *> Park and Miller's minimal standard generator: reproducible, and its products fit.
       01 RANDOM-STATE PIC 9(18) COMP-5 VALUE 20090607.
       01 PRODUCT PIC 9(18) COMP-5.
       01 QUOTIENT PIC 9(18) COMP-5.
       01 PLACE PIC 9(9) COMP-5.
       PROCEDURE DIVISION.
           ACCEPT NUMBER-TEXT FROM ARGUMENT-VALUE
           MOVE FUNCTION NUMVAL(NUMBER-TEXT) TO RECORD-COUNT
           ACCEPT NUMBER-TEXT FROM ARGUMENT-VALUE
           MOVE FUNCTION NUMVAL(NUMBER-TEXT) TO READ-COUNT
           ACCEPT FILE-NAME FROM ARGUMENT-VALUE
           ACCEPT REPORT-NAME FROM ARGUMENT-VALUE
           OPEN INPUT THE-FILE
           PERFORM READ-COUNT TIMES
               MULTIPLY RANDOM-STATE BY 16807 GIVING PRODUCT
               DIVIDE PRODUCT BY 2147483647
                   GIVING QUOTIENT REMAINDER RANDOM-STATE
               DIVIDE RANDOM-STATE BY RECORD-COUNT
                   GIVING QUOTIENT REMAINDER PLACE
               ADD 1 PLACE GIVING THE-KEY
               READ THE-FILE
                   INVALID KEY ADD 1 TO WRONG
               END-READ
               IF RECORD-NUMBER NOT = THE-KEY ADD 1 TO WRONG END-IF
               ADD RECORD-NUMBER TO TOTAL
           END-PERFORM
           CLOSE THE-FILE
           OPEN OUTPUT REPORT-FILE
           MOVE "TOTAL                    WRONG" TO REPORT-LINE
           MOVE TOTAL TO REPORT-TOTAL
           MOVE WRONG TO REPORT-WRONG
           WRITE REPORT-LINE
           CLOSE REPORT-FILE
           IF WRONG > 0 MOVE 1 TO RETURN-CODE END-IF
           STOP RUN.
