; Copies records of 200 bytes: record-copy IN OUT
(import (chicken file posix) (chicken process-context))

(let* ((names (command-line-arguments))
       (input (file-open (car names) open/rdonly))
       (output (file-open (cadr names) (+ open/wronly open/creat)))
       (record (make-string 200)))
  (let loop ()
    (let ((length (cadr (file-read input 200 record))))
      (when (> length 0)
        (file-write output record length)
        (loop))))
  (file-close output))
