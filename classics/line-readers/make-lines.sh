# make-lines.sh SWEETSPOT long|short lf|cr|crlf|mixed PATH: writes a file of lines with these ends.
#
# 1.8 MB in 20,000 long lines, or a third of a MB in 34,000 short ones. The lengths are odd, so that
# pairs of CR and LF are cut by the ends of buffers of any usual size. `mixed` has all three in turns.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
case $2 in
long) set -- "$@" 20000 89 ;;
short) set -- "$@" 34000 9 ;;
*) echo "make-lines.sh: $2 is neither long nor short" >&2; exit 2 ;;
esac
"$1" work generate --lines "$5" --characters "$6" "$folder"
LC_ALL=C awk -v ends="$3" '
    BEGIN { end["lf"] = "\n"; end["cr"] = "\r"; end["crlf"] = "\r\n"; split("lf cr crlf", turn, " ") }
    { printf "%s%s", $0, end[ends == "mixed" ? turn[NR % 3 + 1] : ends] }
' "$folder/000000.txt" > "$4"
