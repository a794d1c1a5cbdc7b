# check.sh FOLDER FILE SUMS: is FILE in FOLDER the one that SUMS names?
set -e
cd "$1"
grep -F " $2" "$3" | sha256sum --check --quiet --strict
