# Copies records of 200 bytes: record_copy.m IN OUT. Octave buffers its files itself.
1;
names = argv();
input = fopen(names{1}, "rb");
output = fopen(names{2}, "wb");
while (numel(record = fread(input, 200, "uint8=>uint8")) > 0)
  fwrite(output, record);
endwhile
fclose(output);
