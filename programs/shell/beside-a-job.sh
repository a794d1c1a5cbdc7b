# What others do to the output of a job while it works: they add to it, put it away, cut it. The job writes
# records, and then computes without a word to anyone. How far it is its processor time says, also on a busy machine.
job() {
    perl -e '
        sub compute { my ($seconds) = @_; do { 1 for 1 .. 10_000 } until (times)[0] >= $seconds }
        for $part (1 .. 3) {
            syswrite STDOUT, sprintf("record %d %03d\n", $part, $_) for 1 .. 200;
            compute(0.1 * $part);
        }
        compute(1.1);'
}

# Until all records are written, and it has computed since. The shell alone looks: no process begins or ends.
until_it_computes() {
    ticks=0
    until [ "${ticks:-0}" -ge 40 ]; do
        read -r child rest <"/proc/$!/task/$!/children"
        [ "$child" ] || continue
        read -r stat <"/proc/$child/stat"
        set -- $stat
        ticks=${14}
    done
}

job >added & until_it_computes; echo second >>added; wait
job >cut & until_it_computes; gzip -nc cut >copy.gz; : >cut; wait
job >given & until_it_computes; dd if=/dev/null of=given bs=1 seek=3 status=none; wait
gzip -dc copy.gz | wc -l

# The same by processes that were there before, and make none.
mkfifo go
(read -r go <go; exec gzip -nc kept) >kept.gz & copy=$!
job >kept & until_it_computes; echo >go; wait $copy; : >kept; wait
gzip -dc kept.gz | wc -l
(read -r go <go; records=0; while read -r record; do records=$((records + 1)); done <counted
    : >counted; echo $records) &
job >counted & until_it_computes; echo >go; wait
