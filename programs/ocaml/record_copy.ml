(* Copies records of 200 bytes: record_copy IN OUT *)
let () =
  let input = Unix.openfile Sys.argv.(1) [ Unix.O_RDONLY ] 0 in
  let output = Unix.openfile Sys.argv.(2) [ Unix.O_WRONLY; Unix.O_CREAT; Unix.O_TRUNC ] 0o644 in
  let record = Bytes.create 200 in
  let rec copy () =
    match Unix.read input record 0 200 with
    | 0 -> ()
    | length ->
        ignore (Unix.write output record 0 length);
        copy ()
  in
  copy ()
