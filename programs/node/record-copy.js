// Copies records of 200 bytes: record-copy.js IN OUT
const fs = require("fs");

const input = fs.openSync(process.argv[2], "r");
const output = fs.openSync(process.argv[3], "w");
const record = Buffer.alloc(200);
for (let length; (length = fs.readSync(input, record)) > 0; ) {
  fs.writeSync(output, record, 0, length);
}
