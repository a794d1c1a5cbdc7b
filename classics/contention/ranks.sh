# Copies INPUT into the folder OUTPUT, RANKS times at once, in records of 200 bytes.
ranks=$1 input=$2 output=$3
mkdir "$output" || exit
pids=
for rank in $(seq "$ranks"); do
    dd if="$input" of="$output/$rank" bs=200 status=none &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || exit
done
