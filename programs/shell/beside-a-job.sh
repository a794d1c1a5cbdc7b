# What others do to the output of a job while it works: they add to it, put it away, cut it. The job writes
# records, and then computes without a word to anyone.
job() {
    perl -MTime::HiRes=time -e '
        for $part (1 .. 3) {
            syswrite STDOUT, sprintf("record %d %03d\n", $part, $_) for 1 .. 200;
            $until = time + 0.1;
            1 while time < $until;
        }
        $until = time + 0.5;
        1 while time < $until;'
}

job >added & sleep .6; echo second >>added; wait
job >cut & sleep .6; gzip -nc cut >copy.gz; : >cut; wait
job >given & sleep .6; dd if=/dev/null of=given bs=1 seek=3 status=none; wait
gzip -dc copy.gz | wc -l
