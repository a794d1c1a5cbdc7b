# Copies records of 200 bytes: record-copy.R IN OUT. R buffers its files itself.
names <- commandArgs(trailingOnly = TRUE)
input <- file(names[1], "rb")
output <- file(names[2], "wb")
while (length(record <- readBin(input, "raw", 200)) > 0) {
  writeBin(record, output)
}
close(output)
