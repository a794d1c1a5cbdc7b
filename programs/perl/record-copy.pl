# Copies records of 200 bytes: record-copy.pl IN OUT
use strict;
use warnings;

open my $input, '<:raw', $ARGV[0] or die "$ARGV[0]: $!";
open my $output, '>:raw', $ARGV[1] or die "$ARGV[1]: $!";
while (sysread $input, my $record, 200) {
    syswrite $output, $record;
}
