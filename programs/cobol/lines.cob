      *> LINE SEQUENTIAL copy that DISPLAYs between its writes.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. LINESEQ.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT FILE-IN ASSIGN TO "lines.txt"
               ORGANIZATION IS LINE SEQUENTIAL.
           SELECT FILE-OUT ASSIGN TO "lines.out"
               ORGANIZATION IS LINE SEQUENTIAL.
       DATA DIVISION.
       FILE SECTION.
       FD FILE-IN.
       01 REC-IN PIC X(120).
       FD FILE-OUT.
       01 REC-OUT PIC X(120).
       WORKING-STORAGE SECTION.
       01 AT-END-FLAG PIC 9 VALUE 0.
       01 COUNTED PIC 9(9) VALUE 0.
       01 QUOT PIC 9(9).
       01 REST PIC 9(9).
       PROCEDURE DIVISION.
           OPEN INPUT FILE-IN OUTPUT FILE-OUT
           PERFORM UNTIL AT-END-FLAG = 1
               READ FILE-IN AT END MOVE 1 TO AT-END-FLAG
                   NOT AT END
                       ADD 1 TO COUNTED
                       MOVE FUNCTION UPPER-CASE(REC-IN) TO REC-OUT
                       WRITE REC-OUT
                       DIVIDE COUNTED BY 500 GIVING QUOT REMAINDER REST
                       IF REST = 0
                           DISPLAY "AT " COUNTED
                           DISPLAY "WARN " COUNTED UPON SYSERR
                       END-IF
               END-READ
           END-PERFORM
           CLOSE FILE-IN FILE-OUT
           DISPLAY "LINES: " COUNTED
           STOP RUN.
