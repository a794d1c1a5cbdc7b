;; Copies records of 200 bytes: record-copy.lisp IN OUT
(declaim (optimize speed))

(defun copy (from to)
  (let ((input (sb-unix:unix-open from sb-unix:o_rdonly 0))
        (output (sb-unix:unix-open to (logior sb-unix:o_wronly sb-unix:o_creat) #o644))
        (record (make-array 200 :element-type '(unsigned-byte 8))))
    (sb-sys:with-pinned-objects (record)
      (loop for length = (sb-unix:unix-read input (sb-sys:vector-sap record) 200)
            while (plusp length)
            do (sb-unix:unix-write output record 0 length)))))

(apply #'copy (last sb-ext:*posix-argv* 2))
