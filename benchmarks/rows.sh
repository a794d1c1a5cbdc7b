# Usage: bash rows.sh INPUT OUTPUT
# Writes each line of INPUT to OUTPUT by a redirection of its own, as scripts do.
set -eu
exec 4>"$2"
while read -r line; do
    printf '%s\n' "$line" >&4
done <"$1"
