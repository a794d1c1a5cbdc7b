# What others do to the output of a job while it works: they add to it, put it away, cut it. The job writes
# records, and then computes without a word to anyone. Where the machine is slow, all of it takes longer.
export SLOWER=$((1 + ${PATIENCE:-1} / 5))
job() {
    perl -MTime::HiRes=time -e '
        for $part (1 .. 3) {
            syswrite STDOUT, sprintf("record %d %03d\n", $part, $_) for 1 .. 200;
            $until = time + 0.1 * $ENV{SLOWER};
            1 while time < $until;
        }
        $until = time + 0.9 * $ENV{SLOWER};
        1 while time < $until;'
}

while_it_computes() {
    i=0
    while [ $i -lt $SLOWER ]; do sleep .9; i=$((i + 1)); done
}

job >added & while_it_computes; echo second >>added; wait
job >cut & while_it_computes; gzip -nc cut >copy.gz; : >cut; wait
job >given & while_it_computes; dd if=/dev/null of=given bs=1 seek=3 status=none; wait
gzip -dc copy.gz | wc -l
