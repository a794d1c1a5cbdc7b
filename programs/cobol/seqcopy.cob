      *> Copies a file of fixed records, SEQUENTIAL, record by record.
       IDENTIFICATION DIVISION.
       PROGRAM-ID. SEQCOPY.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT FILE-IN ASSIGN TO "in.dat"
               ORGANIZATION IS SEQUENTIAL.
           SELECT FILE-OUT ASSIGN TO "out.dat"
               ORGANIZATION IS SEQUENTIAL.
       DATA DIVISION.
       FILE SECTION.
       FD FILE-IN.
       01 REC-IN PIC X(200).
       FD FILE-OUT.
       01 REC-OUT PIC X(200).
       WORKING-STORAGE SECTION.
       01 AT-END-FLAG PIC 9 VALUE 0.
       01 COUNTED PIC 9(9) VALUE 0.
       PROCEDURE DIVISION.
           OPEN INPUT FILE-IN OUTPUT FILE-OUT
           PERFORM UNTIL AT-END-FLAG = 1
               READ FILE-IN AT END MOVE 1 TO AT-END-FLAG
                   NOT AT END
                       ADD 1 TO COUNTED
                       MOVE REC-IN TO REC-OUT
                       WRITE REC-OUT
               END-READ
           END-PERFORM
           CLOSE FILE-IN FILE-OUT
           DISPLAY "RECORDS: " COUNTED
           STOP RUN.
