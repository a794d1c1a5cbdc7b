<?php
// Copies records of 200 bytes: record-copy.php IN OUT. PHP does not buffer what it writes.
$input = fopen($argv[1], "rb");
stream_set_read_buffer($input, 0);
$output = fopen($argv[2], "wb");
while (($record = fread($input, 200)) !== "") {
    fwrite($output, $record);
}
