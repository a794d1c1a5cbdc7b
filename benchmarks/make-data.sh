# make-data.sh KIND COUNT PATH: data for the plans that `sweetspot work generate` does not make.
set -e
kind=$1 count=$2 path=$3

# Rows that sqlite3 inserts.
rows() {
    seq 0 $((count - 1)) | sed "s/.*/INSERT INTO t VALUES (&, 'name of &', &.5);/"
}

case $kind in
lines) # COUNT lines of 200 bytes
    seq -f '%0199.0f' "$count" > "$path"
    ;;
accented) # COUNT letters of Latin-1, one in sixteen of them accented
    od -An -v -tx1 /dev/urandom | tr -d ' \n' | head -c "$count" |
        LC_ALL=C tr 0123456789abcdef 'abcdefghijklmno\351' > "$path"
    ;;
small-files) # COUNT files of 1,000 bytes, as small-files.c reads them
    mkdir "$path"
    cd "$path"
    seq 100000000 | head -c $((1000 * count)) | split -b 1000 -d -a 6 - ''
    ;;
pair) # two equal files of COUNT bytes
    mkdir "$path"
    seq 100000000 | head -c "$count" > "$path/one"
    cp "$path/one" "$path/other"
    ;;
one-transaction | transactions) # COUNT rows in one transaction, or each in its own
    {
        echo 'CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, amount REAL);'
        test "$kind" = transactions || echo 'BEGIN;'
        rows
        test "$kind" = transactions || echo 'COMMIT;'
        echo 'SELECT count(*), sum(amount) FROM t;'
    } > "$path"
    ;;
repository) # COUNT files, a hundred in each folder, all committed
    mkdir "$path"
    cd "$path"
    awk -v count="$count" 'BEGIN {
        for (number = 0; number < count; number++) {
            folder = sprintf("part-%03d", number / 100)
            if (number % 100 == 0) system("mkdir " folder)
            file = sprintf("%s/file-%06d.txt", folder, number)
            for (line = 0; line < 50; line++) print "file " number > file
            close(file)
        }
    }'
    # git reads files again that are as young as its index.
    sleep 2
    git init -q
    git add .
    git -c user.name=benchmark -c user.email=benchmark@localhost commit -q -m 'All files'
    ;;
*)
    echo "make-data.sh: there is no data of the kind $kind" >&2
    exit 2
    ;;
esac
