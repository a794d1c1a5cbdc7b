;; Copies records of 200 bytes: record-copy.scm IN OUT
(use-modules (ice-9 binary-ports) (rnrs bytevectors))

(let* ((names (command-line))
       (input (open-file (cadr names) "rb0"))
       (output (open-file (caddr names) "wb0"))
       (record (make-bytevector 200)))
  (let loop ()
    (let ((length (get-bytevector-n! input record 0 200)))
      (unless (eof-object? length)
        (put-bytevector output record 0 length)
        (loop))))
  (close-port output))
