# Here-documents, while read, redirections in every direction, as dash and bash do them.
i=0
while read -r word number; do
    i=$((i + 1))
    echo "$i $word ${#number}"
done < in.txt > counted
tail -n 1 counted

cat <<END > here
one
$(head -n 2 in.txt)
$(i=0; while [ $i -lt 300 ]; do echo "line $i of a here-document that is larger than a pipe's page"; i=$((i + 1)); done)
END
wc here

while read -r a && read -r b <&3; do echo "$a|$b"; done < counted 3< here > paired
wc paired

exec 5>> log
for n in 1 2 3 4 5; do
    echo "log $n" >&5
    sed -n "${n}p" in.txt >&5
    wc -c < log
done
exec 5>&-
cat log

{ read -r first; echo "first: $first"; head -n 1; read -r next; echo "next: $next"; } < counted
(exit 3) || echo "status $?"
printf '%s\n' a b c | while read -r x; do echo "$x" >> piped; cat piped; done
exec 1> said
echo to the file
ls missing 2>&1
(echo in a subshell; echo "to errors" >&2)
exit 6
