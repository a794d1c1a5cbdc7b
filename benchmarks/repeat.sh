# repeat.sh TIMES COMMAND...: runs a command again and again, as the start of `run` would be much of the
# time of one run.
times=$1
shift
while [ "$times" -gt 0 ]; do
    "$@" || exit
    times=$((times - 1))
done
