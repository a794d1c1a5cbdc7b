# Copies records of 200 bytes: record_copy IN OUT
import os

let input = open(paramStr(1), fmRead, 0)
let output = open(paramStr(2), fmWrite, 0)
var record: array[200, byte]
while true:
  let length = input.readBytes(record, 0, 200)
  if length == 0:
    break
  discard output.writeBytes(record, 0, length)
output.close()
