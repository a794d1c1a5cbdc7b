      *> Two files written in turns, one read back while the other is still open, a missing file,
      *> and a run that ends with a return code.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. INTURNS.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT FILE-A ASSIGN TO "a.dat"
               ORGANIZATION IS SEQUENTIAL FILE STATUS IS STATUS-A.
           SELECT FILE-B ASSIGN TO "b.dat"
               ORGANIZATION IS SEQUENTIAL FILE STATUS IS STATUS-B.
           SELECT FILE-C ASSIGN TO "not-there.dat"
               ORGANIZATION IS SEQUENTIAL FILE STATUS IS STATUS-C.
       DATA DIVISION.
       FILE SECTION.
       FD FILE-A.
       01 REC-A PIC X(80).
       FD FILE-B.
       01 REC-B PIC X(33).
       FD FILE-C.
       01 REC-C PIC X(10).
       WORKING-STORAGE SECTION.
       01 STATUS-A PIC XX.
       01 STATUS-B PIC XX.
       01 STATUS-C PIC XX.
       01 N PIC 9(9) VALUE 0.
       PROCEDURE DIVISION.
           OPEN OUTPUT FILE-A FILE-B
           PERFORM 3000 TIMES
               ADD 1 TO N
               MOVE N TO REC-A
               WRITE REC-A
               MOVE N TO REC-B
               WRITE REC-B
           END-PERFORM
           CLOSE FILE-A
           OPEN INPUT FILE-A
           PERFORM 1500 TIMES
               READ FILE-A
               MOVE REC-A TO REC-B
               WRITE REC-B
           END-PERFORM
           OPEN INPUT FILE-C
           DISPLAY "STATUS " STATUS-A STATUS-B STATUS-C
           WRITE REC-A
           DISPLAY "STATUS " STATUS-A
           MOVE 7 TO RETURN-CODE
           STOP RUN.
