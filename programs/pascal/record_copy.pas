{ Copies records of 200 bytes: record_copy IN OUT }
program record_copy;
var
  input_file, output_file: file;
  data: array [1..200] of byte;
  length: longint;
begin
  assign(input_file, paramstr(1));
  assign(output_file, paramstr(2));
  reset(input_file, 1);
  rewrite(output_file, 1);
  repeat
    blockread(input_file, data, 200, length);
    blockwrite(output_file, data, length);
  until length = 0;
  close(output_file);
end.
