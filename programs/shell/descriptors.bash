# What only bash does: named descriptors, mapfile, read -N, here-strings, coprocesses, process substitution.
exec {in}< in.txt {out}> out.txt
for n in {1..500}; do
    read -r -u "$in" line
    printf '%s %s\n' "$n" "$line" >&"$out"
done
wc -c out.txt
read -r -N 100 -u "$in" block
echo "${#block}"
head -c 64 <&"$in" >&"$out"
mapfile -t -n 100 -u "$in" lines
echo "${#lines[@]} ${lines[99]}"
exec {copy}>&"$out" {out}>&-
echo "through the copy" >&"$copy"
exec {copy}>&-
tail -n 1 out.txt
while read -r line; do echo "$line"; done <<< "$(tail -n 3 in.txt)"
coproc cat
echo to cat >&"${COPROC[1]}"
read -r -u "${COPROC[0]}" answer
echo "$answer"
eval "exec ${COPROC[1]}>&-"
wait
diff <(head -n 200 in.txt) <(sed 200q in.txt) && echo same
tee >(wc -c > counted) < in.txt > /dev/null
while [ ! -s counted ]; do sleep 0.01; done
cat counted
echo "$(< out.txt)" | wc -l
trap 'echo leaving >> trapped; cat trapped' EXIT
for n in {1..300}; do echo "$n" >> trapped; done
exec 255>&1 2> errors
nonsense
exit 11
