//! Programs that everybody has: shells, coreutils, and tools that work on files.

use super::{Case, DEFAULT, FEW_CALLS, LINES};

pub const SHELL: &[Case] = &[
    Case {
        group: "shell",
        name: "head leaves the rest to cat",
        prepare: LINES,
        command: "{ $RUN head -n 1; cat; } < in.txt > out; { head -n 1; $RUN cat; } < in.txt > out2; \
                  $RUN sh -c '{ head -n 1; cat; } < in.txt > out3'",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "a program, then done, in one file",
        prepare: LINES,
        command: "{ $RUN cat in.txt; echo done; } > out; \
                  { echo first; $RUN dd if=in.txt bs=7 status=none; echo done; } > out2; \
                  $RUN sh -c '{ dd if=in.txt bs=11 status=none; echo done; } > out3'; \
                  { $RUN sh -c 'dd if=in.txt bs=13 status=none; echo inner'; echo done; } >> out3",
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "beside a job that computes",
        command: "$RUN sh $SRC/shell/beside-a-job.sh",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "dash: here-documents and while read",
        needs: &["dash"],
        prepare: LINES,
        command: "$RUN dash $SRC/shell/lines.sh",
        ends: "exit 6",
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "bash: here-documents and while read",
        needs: &["bash"],
        prepare: LINES,
        command: "$RUN bash $SRC/shell/lines.sh",
        ends: "exit 6",
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "bash: descriptors, mapfile, coprocesses",
        needs: &["bash"],
        prepare: LINES,
        command: "$RUN bash $SRC/shell/descriptors.bash",
        ends: "exit 11",
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "while read from outside",
        prepare: "seq 1500 > in.txt",
        command: "{ read a; $RUN sh -c 'read b; read c; echo $b $c'; read d; echo $a $d; } < in.txt; \
                  $RUN sh -c 'while read line; do echo \"<$line>\"; done' < in.txt > out; \
                  i=0; while read line; do i=$((i+1)); [ $i -gt 3 ] && break; \
                  $RUN sh -c 'read stolen; echo stolen $stolen'; done < in.txt",
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "output and errors to one file",
        prepare: LINES,
        command: "$RUN sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; \
                  head -n $i in.txt; done' > both 2>&1; \
                  $RUN sh -c 'for i in 1 2 3; do echo out $i; ls missing$i; done' > both2 2>> both2",
        ends: "exit 2",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "programs in the background share a file",
        command: "$RUN sh -c 'for p in a b c; do (i=0; while [ $i -lt 300 ]; do echo $p$i; \
                  i=$((i+1)); done) >> log & done; wait; sort log > sorted; rm log; wc -l sorted'",
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "exit status and signals",
        command: "$RUN sh -c 'exit 42'; echo $?; $RUN sh -c 'kill -TERM $$'; echo $?; \
                  $RUN false; echo $?; $RUN sh -c 'echo data > f; kill -KILL $$'; echo $?; \
                  $RUN sh -c 'trap \"echo got >> f; exit 9\" USR1; kill -USR1 $$; sleep 5'; echo $?; \
                  exec $RUN sh -c 'echo last >> f; kill -INT $$'",
        ends: "signal 2",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "a closed standard input, output, error",
        prepare: LINES,
        command: "$RUN cat in.txt <&- > out; echo $?; $RUN cat in.txt >&-; echo $?; \
                  $RUN cat missing 2>&-; echo $?; \
                  $RUN sh -c 'exec 0<&- 1>&-; dd if=in.txt of=copy bs=17; wc copy >&2' 2>&1 | grep -v copied",
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "pipelines",
        prepare: "seq 20000 > in.txt",
        command: "$RUN sh -c 'cat in.txt | tee copy | grep 7 | tail -n 100 | head -n 5'; \
                  cat in.txt | $RUN tail -n 2; $RUN cat < in.txt | wc -l; \
                  $RUN sh -c 'yes | head -n 3000 > yes.txt; tail -c 3 yes.txt | od -c'",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "shell",
        name: "the file that is written is read",
        command: "$RUN sh -c 'i=0; while [ $i -lt 800 ]; do echo line $i >&3; i=$((i+1)); \
                  [ $((i % 100)) = 0 ] && wc -c < log; done 3> log; tail -n 1 log; \
                  exec 4<> both; echo one two >&4; cat both; read x <&4; echo \"[$x]\"; \
                  cat log log > both; wc both'",
        ..DEFAULT
    },
];

pub const COREUTILS: &[Case] = &[
    Case {
        group: "coreutils",
        name: "dd bs=1",
        prepare: "seq 2000 > in",
        command: "$RUN dd if=in of=out bs=1 status=none; $RUN dd if=in bs=1 skip=5 count=100 status=none",
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "dd of zeros",
        command: "$RUN dd if=/dev/zero of=out bs=7 count=30000 status=none",
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "dd bs=7",
        prepare: LINES,
        command: "$RUN dd if=in.txt of=out bs=7 2>&1 | head -n 2; $RUN dd if=in.txt bs=7 status=none > out2",
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "dd bs=200 and seek, skip, conv",
        prepare: LINES,
        command: "$RUN dd if=in.txt of=out bs=200 status=none; \
                  $RUN dd if=in.txt of=out bs=200 seek=100 skip=7 count=300 conv=notrunc status=none; \
                  $RUN dd if=in.txt of=sparse bs=100 seek=5000 count=500 conv=sparse status=none; \
                  $RUN dd if=/dev/zero of=sparse2 bs=512 count=100 conv=sparse status=none; \
                  $RUN dd if=in.txt of=out3 ibs=13 obs=77 conv=ucase,sync status=none; \
                  $RUN dd if=in.txt of=out4 ibs=100 skip=50B iseek=3B count=1003B iflag=fullblock status=none; \
                  $RUN dd if=in.txt of=out bs=10 oflag=append conv=notrunc status=none; \
                  $RUN dd if=in.txt of=out5 bs=64 conv=swab,fsync status=none; \
                  $RUN dd if=in.txt of=out6 cbs=20 conv=block status=none; \
                  $RUN dd if=in.txt of=out5 bs=1 seek=100 count=0 status=none",
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "dd large blocks and direct",
        prepare: "seq 300000 > in",
        command: "$RUN dd if=in of=out bs=1M status=none; $RUN dd if=in of=out2 bs=64K status=none; \
                  $RUN dd if=in of=out3 bs=4096 count=10 oflag=direct status=none; echo $?; \
                  $RUN dd if=in of=out4 bs=4096 iflag=direct status=none; echo $?; \
                  $RUN dd if=in of=out5 bs=100 oflag=dsync count=20 status=none",
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "cp and cp -p",
        prepare: "seq 50000 > in; touch -d '2001-02-03 04:05:06.789' in; chmod 751 in; mkdir d; \
                  seq 300 > d/a; ln -s a d/b; ln d/a d/c; touch -d 1999-09-09 d/a; truncate -s 100K d/holes",
        command: "$RUN cp in out; $RUN cp -p in kept; $RUN cp -a d e; $RUN cp --sparse=never d/holes full; \
                  $RUN cp --reflink=never -p in kept2; $RUN cp -p missing kept 2>&1; echo $?",
        times: &["kept", "kept2", "e/a", "e/c"],
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "cat",
        prepare: LINES,
        command: "$RUN cat in.txt in.txt > out; $RUN cat -n in.txt > numbered; $RUN cat in.txt - in.txt < in.txt > out3; \
                  $RUN cat out >> out2; $RUN cat in.txt >> in.txt; echo $?; $RUN cat < out > out4; $RUN cat -A in.txt | tail -n 1",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "head and tail",
        prepare: LINES,
        command: "$RUN head -c 1000 in.txt > a; $RUN head -n -5 in.txt > b; $RUN tail -n 7 in.txt; \
                  $RUN tail -c +190000 in.txt; $RUN tail -n +2990 in.txt; $RUN tail -c 10 < in.txt; \
                  { $RUN head -c 10; head -c 10; } < in.txt; { $RUN tail -n 3; cat; } < in.txt",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "tail -f sees what is appended",
        command: "echo one > log; $RUN tail -n +1 -f -s 0.02 log > seen & tail=$!; \
                  for i in 1 2 3 4 5; do sleep 0.03; echo line $i >> log; done; echo end >> log; \
                  i=0; while [ $i -lt 200 ] && ! grep -q end seen; do sleep 0.02; i=$((i+1)); done; \
                  cat seen; kill $tail; wait",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "sort",
        prepare: "seq 30000 | tac | sort -s -k 1.3,1.3 > in",
        command: "$RUN sort -n in > out; $RUN sort in -o in; $RUN sort -S 32K -T . -r in > out2; \
                  $RUN sort -u in out | tail -n 1; $RUN sort -m in in | head -n 3; $RUN sort --parallel=2 in > out3",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "split, csplit, join, paste, comm",
        prepare: "seq 5000 > a; seq 2500 2 9000 | sort > b; sort a > c",
        command: "$RUN split -l 700 a part-; $RUN split -b 1000 -d a bytes-; $RUN split -n 3 a third-; \
                  $RUN csplit -s a 100 2000 /4000/; $RUN paste a a b > pasted; $RUN comm b c > common; \
                  $RUN join b c > joined; $RUN tac a > backwards; $RUN shuf --random-source=a a > shuffled; \
                  $RUN truncate -s 777 b; $RUN fold -w 3 a > folded; $RUN nl a > numbered; $RUN tr 1 x < a > tr; \
                  $RUN uniq -c c > counted; $RUN cut -c 2- a > cut; $RUN expand a > expanded; $RUN pr a > /dev/null",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "sums and dumps",
        prepare: "seq 40000 > in",
        command: "$RUN sha256sum in > sums; $RUN sha256sum -c sums; $RUN md5sum < in; $RUN cksum in; $RUN sum in; \
                  $RUN wc in; $RUN wc -c < in; $RUN od -A d -t x1 in | tail -n 3; $RUN base64 in > b; $RUN base64 -d b | cmp - in; \
                  $RUN cmp in b; echo $?; $RUN cmp -n 100 -i 20 in in",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "tee, mv, ln, install, shred",
        prepare: "seq 5000 > in",
        command: "$RUN tee one two < in | tail -n 1; $RUN tee -a one < in > /dev/null; $RUN mv one three; \
                  $RUN ln three four; $RUN ln -s four five; $RUN install -m 640 in installed; $RUN shred -n 1 -z two; \
                  $RUN cp -l in six; $RUN rm in; $RUN touch -d 2011-11-11 three; $RUN stat -c %s,%h three; \
                  $RUN cp --backup=numbered three installed",
        times: &["three"],
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "coreutils",
        name: "stdbuf and timeout around it",
        prepare: LINES,
        command: "$RUN stdbuf -o0 cat -n in.txt > a; $RUN stdbuf -oL tr a-z A-Z < in.txt > b; stdbuf -o 17 $RUN cut -c 1-20 in.txt > c; \
                  timeout 20 $RUN dd if=in.txt of=d bs=9 status=none; $RUN timeout 20 dd if=in.txt of=e bs=9 status=none; \
                  $RUN nice env A=b sh -c 'echo $A > f'; env -i $RUN /bin/cat in.txt > g",
        ..DEFAULT
    },
];

pub const TOOLS: &[Case] = &[
    Case {
        group: "tools",
        name: "tar",
        prepare: "mkdir d; seq 3000 > d/a; seq 100 | split -l 3 - d/s-; ln -s a d/l; ln d/a d/h; chmod 600 d/s-aa; \
                  find d -exec touch -h -d '2005-05-05 05:05:05' {} +",
        command: "$RUN tar --sort=name --mtime=@1000000000 -cf a.tar d; $RUN tar --sort=name --mtime=@1000000000 -cf b.tar -b 1 d; $RUN tar tvf a.tar | wc -l; \
                  mkdir out; $RUN tar -xf a.tar -C out; $RUN tar --sort=name --mtime=@1000000000 -czf c.tgz d; $RUN tar -tzf c.tgz | tail -n 1; \
                  $RUN tar -rf a.tar d/a; $RUN tar -df a.tar; $RUN tar --delete -f a.tar d/s-ab; \
                  cat b.tar | $RUN tar -xOf - d/a | wc -c; $RUN tar -cf - d/a > e.tar",
        times: &["out/d/a", "out/d/h", "out/d/s-aa"],
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "gzip",
        prepare: "seq 60000 > in; touch -d 2005-05-05 in; cp -p in in2",
        command: "$RUN gzip -n in; $RUN gzip -dk in.gz; $RUN gzip -c in2 > c.gz; $RUN gunzip -c c.gz | cmp - in2; \
                  $RUN gzip -t c.gz; $RUN zcat c.gz | tail -n 1; printf x >> c.gz; $RUN gzip -t c.gz; echo $?",
        times: &["in", "in.gz"],
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "awk",
        needs: &["awk"],
        prepare: LINES,
        command: "$RUN awk '{ print $2 % 7 > (\"mod\" $2 % 3); s += $2 } END { print s }' in.txt; \
                  $RUN awk '{ print > \"log\"; fflush(\"log\"); if (NR % 500 == 0) { close(\"log2\"); system(\"wc -c log\") } }' in.txt; \
                  $RUN awk 'BEGIN { while ((getline line < \"in.txt\") > 0) n++; print n; print \"x\" | \"cat > piped\" }'",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "sed and grep",
        prepare: LINES,
        command: "$RUN sed -i 's/1/one/' in.txt; $RUN sed -i.bak -e 5d -e '7w seven' in.txt; $RUN sed -n '$p' in.txt; \
                  $RUN sed -u 3q < in.txt; { $RUN sed -n 2q; cat; } < in.txt | wc -c; $RUN grep -c one in.txt; \
                  { $RUN grep -m 1 one; head -n 1; } < in.txt; $RUN grep -rn seven . | sort | head -n 3",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "sqlite3",
        needs: &["sqlite3"],
        command: "$RUN sqlite3 a.db 'create table t(a integer primary key, b text); \
                  with recursive n(i) as (select 1 union all select i+1 from n where i < 3000) \
                  insert into t select i, printf(\"%.*c\", i % 90, \"x\") from n; create index bi on t(b);'; \
                  for i in 1 2 3 4 5 6 7 8; do echo \"insert into t(b) values ('row $i');\"; done | $RUN sqlite3 a.db; \
                  $RUN sqlite3 a.db 'pragma integrity_check; select count(*), sum(length(b)) from t;' '.dump' > dump; \
                  $RUN sqlite3 w.db 'pragma journal_mode=wal; create table t(a); insert into t values(1); select * from t;' \
                  'delete from t; insert into t values (2);'; $RUN sqlite3 w.db 'select * from t'; \
                  $RUN sqlite3 a.db 'delete from t where a % 3 = 0; vacuum; select count(*) from t;' > after; \
                  sqlite3 a.db .dump > dump2",
        // The header counts transactions and names the library's version, both as they were; the
        // write-ahead log's salt is random.
        may_differ: &["w.db"],
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "git",
        needs: &["git"],
        prepare: LINES,
        command: "export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' \
                  GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; \
                  $RUN git init -q -b main r; cd r; cp ../in.txt .; seq 50 | split -l 2; $RUN git add .; \
                  $RUN git commit -q -m one; seq 100 >> in.txt; $RUN git commit -q -a -m two; $RUN git log --stat --format=%H; \
                  $RUN git checkout -q -b side HEAD~1; echo side > xaa; $RUN git commit -q -a -m side; \
                  $RUN git merge -q -m merged main; $RUN git gc -q; $RUN git fsck --strict 2>&1; $RUN git status --short; \
                  $RUN git clone -q . ../clone; $RUN git -C ../clone log --format=%H%s; $RUN git diff HEAD~1 > ../diff; \
                  $RUN git archive HEAD > ../archive.tar; $RUN git stash -q; $RUN git cat-file --batch-all-objects --batch-check | sort",
        // The index holds inode numbers and times; the names of packs are compared by their content's listing.
        may_differ: &["r/.git/index", "clone/.git/index"],
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "make and gcc",
        needs: &["make", "gcc"],
        prepare: "cp $SRC/c/log.h $SRC/c/copy.c $SRC/c/rewrite.c .; seq 3000 > in; \
                  printf 'all: copy rewrite out\\ncopy: copy.o\\nrewrite: rewrite.o\\nCFLAGS=-O1\\n%%.o: %%.c log.h\\n\\t$(CC) $(CFLAGS) -c $<\\n\
                  out: copy in\\n\\t./copy in out 3\\n' | sed 's/^ *\\([a-z]\\)/\\1/' > Makefile",
        command: "$RUN make CC=gcc 2>&1; $RUN make CC=gcc; touch copy.c; $RUN make -j2 CC=gcc copy; \
                  $RUN gcc -O1 -save-temps -o copy2 copy.c; $RUN ar rcsD lib.a copy.o rewrite.o; $RUN strip -o copy3 copy; \
                  $RUN objdump -d copy.o | tail -n 1; $RUN nm lib.a | wc -l; $RUN ./copy2 in out2 7",
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "bc",
        needs: &["bc"],
        command: "echo 'scale=300; 4*a(1)' | $RUN bc -l > pi; cat pi; echo 'for (i=0;i<500;i++) i^3' > in; \
                  $RUN bc in < /dev/null > out; { $RUN bc; cat; } < in | tail -n 1",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "diff and patch",
        needs: &["diff", "patch"],
        prepare: "seq 3000 > a; seq 3000 | sed 's/^7$/seven/; 100d; 2500i new' > b; mkdir d e; cp a d/x; cp b e/x",
        command: "$RUN diff -u --label a --label b a b > p; echo $?; $RUN patch a p; cmp a b; $RUN patch -R -b a p; \
                  $RUN diff -rq d e; echo $?; $RUN diff -e a b | tail -n 3; $RUN diff3 a b a | head; \
                  $RUN sdiff -s a b; $RUN patch --dry-run a p; seq 10 > a; $RUN patch a p; echo $?",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "tools",
        name: "find, xargs, xxd, file",
        needs: &["xxd", "file"],
        prepare: "mkdir d; seq 200 | split -l 2 - d/; seq 3000 > in",
        command: "$RUN find d -type f -size -2 | sort | tail -n 1; $RUN find d -name 'a*' -exec cat {} + | sort -n | tail -n 1; \
                  ls d/* | $RUN xargs -n 10 cat > all; $RUN xxd in hex; $RUN xxd -r hex | cmp - in; $RUN file in hex d; \
                  $RUN find d -name '*c' -delete; $RUN ls d | wc -l",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
];
