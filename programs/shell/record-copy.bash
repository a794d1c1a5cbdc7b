# Copies lines: record-copy.bash IN OUT
while IFS= read -r line; do
    printf '%s\n' "$line"
done < "$1" > "$2"
