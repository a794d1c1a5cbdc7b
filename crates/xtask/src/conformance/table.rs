//! Checks that are lines of shell: programs that test file systems, and everyday programs at work on
//! more than a few records.
//!
//! `$RUN` stands for `sweetspot run --buffer-size N --`, or for nothing; `$SRC` is the folder
//! `programs/`, `$TOOLS` that of fsx, `$OUTSIDE` a folder whose files are not compared, `$OPERATIONS`
//! a number.

use super::{Check, Kind};

/// A line of shell, and what stands around it.
#[derive(Clone, Default)]
pub struct Script {
    pub name: String,
    /// Commands or paths that must be there.
    pub needs: Vec<&'static str>,
    /// Makes what the command works on.
    pub prepare: String,
    pub command: String,
    /// Files of which a part of the path is one of these are not compared.
    pub ignore: Vec<&'static str>,
    is_quick: bool,
    is_buffered: bool,
}

/// All checks of this file.
pub fn checks() -> impl Iterator<Item = Check> {
    fsx().chain(fio()).chain(stressors()).chain(everyday()).map(|script| Check {
        name: script.name.clone(),
        is_quick: script.is_quick,
        is_buffered: script.is_buffered,
        kind: Kind::Shell(script),
    })
}

/// Random operations on one file, each read verified: as it comes, but for what a disk is waited for
/// (a million times), in five parts, as this version never gives a map back and fails when it has as
/// many as a process can have; with all its operations but maps, which end buffering; and small reads
/// that stay near one another.
fn fsx() -> impl Iterator<Item = Script> {
    let as_it_is = "nomsyncafterwrite = true\n[weights]\ntruncate = 0.5\n";
    let without_maps = "[opsize]\nmax = 4096\n[weights]\nmapread = 0\nmapwrite = 0\nread = 10\n\
                        write = 10\ntruncate = 0.3\nclose_open = 1\nfsync = 0.02\nfdatasync = 0.02\n\
                        posix_fallocate = 0.3\npunch_hole = 0.3\nsendfile = 1\nposix_fadvise = 1\n\
                        copy_file_range = 1\n";
    let small = "flen = 4096\nnosizechecks = true\n[opsize]\nmax = 64\n[weights]\nmapread = 0\n\
                 mapwrite = 0\nread = 100\nwrite = 5\ntruncate = 0.2\nclose_open = 0.1\n";
    let configurations = [
        ("as it is", as_it_is, 5, false),
        ("without maps", without_maps, 1, false),
        ("small", small, 1, true),
    ];
    configurations.into_iter().map(|(name, configuration, parts, is_buffered)| Script {
        name: format!("fsx {name}"),
        needs: vec!["fsx"],
        prepare: format!("printf '{}' > fsx.toml", configuration.replace('\n', "\\n")),
        command: format!(
            "for seed in $(seq {parts}); do $RUN $TOOLS/fsx -q -f fsx.toml -S $seed \
             -N $((OPERATIONS / {parts})) file || exit; done"
        ),
        is_quick: true,
        is_buffered,
        ..Script::default()
    })
}

/// Blocks that carry their checksums, written by one process and verified by another.
fn fio() -> impl Iterator<Item = Script> {
    let jobs: String = ["200", "512", "4k", "64k"]
        .into_iter()
        .flat_map(|block| ["write", "randwrite"].map(|way| (block, way)))
        .map(|(block, way)| format!(" --name={way}-{block} --rw={way} --bs={block}"))
        .collect();
    ["sync", "psync", "vsync"].into_iter().map(move |engine| {
        // A common multiple of all sizes of blocks.
        let job = format!(
            "fio --thread --randseed=7 --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
             --fallocate=none --ioengine={engine} --size=1600k"
        );
        Script {
            name: format!("fio {engine}"),
            needs: vec!["fio"],
            command: format!(
                "$RUN {job} --do_verify=0{jobs} > $OUTSIDE/log 2>&1; echo written $?; \
                 {job} --verify_only{jobs} > $OUTSIDE/log 2>&1; echo verified $?; rm -f *.0; \
                 {job} --do_verify=0{jobs} > $OUTSIDE/log 2>&1; echo written $?; \
                 $RUN {job} --verify_only{jobs} > $OUTSIDE/log 2>&1; echo verified $?"
            ),
            // Headers of blocks hold the time.
            ignore: vec![".0"],
            is_quick: true,
            ..Script::default()
        }
    })
}

/// Stressors of file systems that verify what they do, by operations.
fn stressors() -> impl Iterator<Item = Script> {
    let quick = [
        ("hdd", "40 --hdd-bytes 2m --hdd-write-size 512"),
        ("seek", "3000 --seek-size 2m"),
        ("copy-file", "30 --copy-file-bytes 2m"),
        ("rename", "2000"),
        ("iomix", "2000 --iomix-bytes 4m"),
    ];
    let long = [
        ("hdd", "60 --hdd-bytes 4m --hdd-opts wr-rnd,rd-rnd,fsync,iovec"),
        ("hdd", "60 --hdd-bytes 4m --hdd-write-size 4k --hdd-opts wr-seq,rd-seq,utimes"),
        ("access", "300"),
        ("aio", "200"),
        ("chmod", "500"),
        ("chown", "500"),
        ("dentry", "1000 --dentries 100"),
        ("dir", "500"),
        ("dnotify", "50"),
        ("dup", "200"),
        ("fallocate", "60 --fallocate-bytes 4m"),
        ("fcntl", "2000"),
        ("file-ioctl", "500"),
        ("filename", "500"),
        ("flock", "2000"),
        ("fpunch", "3"),
        ("fsize", "100"),
        ("fstat", "1000"),
        ("getdent", "500"),
        ("inotify", "30"),
        ("io", "30"),
        ("lease", "2000"),
        ("link", "10"),
        ("locka", "2000"),
        ("lockf", "2000"),
        ("lockofd", "2000"),
        ("mknod", "50"),
        ("mmap", "20 --mmap-bytes 4m --mmap-file"),
        ("msync", "100 --msync-bytes 1m"),
        ("open", "2000"),
        ("pipe", "5000"),
        ("readahead", "2000 --readahead-bytes 4m"),
        ("revio", "500 --revio-bytes 4m"),
        ("sendfile", "500 --sendfile-size 1m"),
        ("splice", "2000"),
        ("symlink", "10"),
        ("sync-file", "5 --sync-file-bytes 2m"),
        ("touch", "2000"),
        ("utime", "2000"),
        ("verity", "50"),
        ("xattr", "50"),
    ];
    let rows = quick.into_iter().map(|row| (row, true));
    rows.chain(long.into_iter().map(|row| (row, false))).map(|((stressor, words), is_quick)| {
        let options = words.split_once(' ').map_or("", |(_, options)| options);
        let operations = words.split(' ').next().unwrap_or("1");
        let command = format!(
            "$RUN stress-ng --verify --seed 5 --timeout 60 --temp-path . --{stressor} 1 \
             --{stressor}-ops {operations} {options} > $OUTSIDE/log 2>&1; echo ended $?; \
             grep -c 'fail:' $OUTSIDE/log"
        );
        let name = format!("stress-ng {stressor} {options}");
        let name = name.trim().to_owned();
        Script { name, needs: vec!["stress-ng"], command, is_quick, ..Script::default() }
    })
}

/// A tree of a thousand files, with times, links and modes.
const TREE: &str = "cp -a /usr/include/linux tree; ln -s types.h tree/link; chmod 600 tree/types.h; \
                    find tree -exec touch -h -d 2005-05-05 {} +";
const RECORDS: &str = "awk 'BEGIN { for (i = 0; i < 200000; i++) print i, (i * 7919) % 100003, \
                       \"text of record\", i % 97 }' > in";

/// Programs that everybody has, at work on megabytes.
fn everyday() -> impl Iterator<Item = Script> {
    let script = |name: &str, needs: &[&'static str], prepare: &str, command: &str| Script {
        name: format!("everyday {name}"),
        needs: needs.to_vec(),
        prepare: prepare.to_owned(),
        command: command.to_owned(),
        is_quick: true,
        ..Script::default()
    };
    let buffered = |script: Script| Script { is_buffered: true, ..script };
    let long = |script: Script| Script { is_quick: false, ..script };
    let ignoring =
        |script: Script, ignore: &[&'static str]| Script { ignore: ignore.to_vec(), ..script };
    // Newer versions tidy up in the background after a commit, natively too: what fsck finds would be chance.
    let git = "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=gc.autoDetach GIT_CONFIG_VALUE_0=false \
               GIT_CONFIG_KEY_1=maintenance.autoDetach GIT_CONFIG_VALUE_1=false; \
               export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z \
               GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; ";
    [
        buffered(script(
            "dd",
            &[],
            RECORDS,
            "$RUN dd if=in of=a bs=1 count=300000 status=none; $RUN dd if=in of=b bs=200 status=none; \
             $RUN dd if=in of=c ibs=7 obs=100 count=100000 status=none; \
             $RUN dd if=in of=b bs=333 seek=1000 skip=99 count=5000 conv=notrunc status=none; \
             $RUN dd if=b of=a bs=11 seek=20 count=3000 oflag=append conv=notrunc status=none",
        )),
        script(
            "tar",
            &[],
            TREE,
            "$RUN tar --sort=name -cf a.tar tree; mkdir out; $RUN tar -xf a.tar -C out; \
             $RUN tar -df a.tar; diff -r tree out/tree; $RUN tar -b 1 -rf a.tar tree/types.h; \
             $RUN tar -tvf a.tar; find out/tree -printf '%p %s %t %m\\n' | sort",
        ),
        script(
            "cp -p",
            &[],
            TREE,
            "$RUN cp -a tree out; diff -r tree out; $RUN cp -rp out again; \
             find out again -printf '%p %s %t %m %n\\n' | sort",
        ),
        ignoring(
            script(
                "git",
                &["git"],
                TREE,
                &format!(
                    "{git} $RUN git init -q -b main r; cp -a tree r/; cd r; $RUN git add .; \
                     $RUN git commit -q -m one; find tree -name '*.h' | sort | head -100 | \
                     xargs sed -i s/define/DEFINE/; $RUN git commit -q -a -m two; \
                     $RUN git checkout -q HEAD~1; $RUN git checkout -q main; $RUN git gc -q; \
                     $RUN git fsck --strict 2>&1; $RUN git log --format=%H --stat | sha256sum; \
                     $RUN git clone -q . ../clone; $RUN git -C ../clone ls-tree -r HEAD | sha256sum; \
                     $RUN git diff HEAD~1 > ../diff; $RUN git archive HEAD > ../archive.tar"
                ),
            ),
            &[".git"],
        ),
        script(
            "sort",
            &[],
            RECORDS,
            "$RUN sort -S 1M -T . -k 2n in > a; $RUN sort --parallel=2 -r in -o b; \
             $RUN sort -m a a > c; $RUN sort -u -k 4,4 in; $RUN sort b -o b",
        ),
        script(
            "gzip, bzip2",
            &[],
            RECORDS,
            "$RUN gzip -n -k in; $RUN bzip2 -k in; $RUN gzip -dc in.gz | cmp - in; \
             $RUN bzip2 -dc in.bz2 > out; cmp out in; rm in; $RUN gzip -d in.gz",
        ),
        ignoring(
            script(
                "sqlite3",
                &["sqlite3"],
                "",
                "{ echo 'create table t(a integer primary key, b text, c real); begin;'; \
                 awk 'BEGIN { for (i = 0; i < 40000; i++) printf \"insert into t(b, c) values (\\047row \
                 %d\\047, %d.5);\\n\", i * 7, i }'; echo 'commit; create index i on t(b);'; } > in.sql; \
                 $RUN sqlite3 a.db < in.sql; for i in 1 2 3 4 5 6 7 8 9; do \
                 $RUN sqlite3 a.db \"update t set c = c + $i where a % 97 = $i; delete from t where a = $i\"; \
                 done; $RUN sqlite3 a.db 'pragma integrity_check; select count(*), sum(c) from t'; \
                 $RUN sqlite3 a.db .dump > dump; $RUN sqlite3 w.db 'pragma journal_mode=wal' '.read dump'; \
                 $RUN sqlite3 w.db 'vacuum; pragma integrity_check; select count(*), sum(c) from t'; \
                 $RUN sqlite3 a.db 'vacuum'; $RUN sqlite3 a.db .dump | cmp - dump",
            ),
            // The header counts transactions as they happened.
            &[".db"],
        ),
        buffered(script(
            "perl",
            &["perl"],
            RECORDS,
            "$RUN perl -e 'open I, \"<:unix\", \"in\"; open O, \">:unix\", \"out\"; \
             while (sysread I, $r, 37) { syswrite O, $r; } close O; open O, \"+<:unix\", \"out\"; \
             for $i (0 .. 20000) { sysseek O, $i * 100, 0; sysread O, $r, 10; sysseek O, -10, 1; \
             syswrite O, uc reverse $r; }'; $RUN perl -pi.bak -e 's/record/line/' in; \
             $RUN perl -ne '$s += (split)[1]; END { print \"$s\\n\" }' in",
        )),
        script(
            "awk",
            &["awk"],
            RECORDS,
            "$RUN awk '{ print > (\"part-\" $4 % 10); s += $2 } END { print s }' in; \
             $RUN awk '{ print $1 | \"sort -rn > sorted\" } NR % 20000 == 0 { fflush(); \
             system(\"wc -l < in\") }' in; $RUN awk 'BEGIN { while ((getline l < \"in\") > 0) n++; print n }'",
        ),
        script(
            "make and gcc",
            &["make", "gcc"],
            "cp $SRC/c/*.c $SRC/c/*.h .; printf 'S=$(wildcard *.c)\\nall: $(S:.c=.o)\\n%%.o: %%.c\\n\\tgcc -w \
             -O1 -I$(from) -c $< -o $@\\n' > Makefile",
            "$RUN make -j2 from=$SRC/c > $OUTSIDE/log 2>&1; echo $?; $RUN ar rcsD all.a *.o; $RUN gcc -O2 -flto -w \
             copy.c -o copy; $RUN ./copy all.a out 100; $RUN strip -o small copy; $RUN objdump -d copy.o",
        ),
        long(script(
            "g++",
            &["g++"],
            "cp $SRC/cxx/*.cpp .",
            "for f in *.cpp; do $RUN g++ -O1 -save-temps -o ${f%.cpp} $f; done",
        )),
        ignoring(
            script(
                "java",
                &["java", "javac"],
                "cp $SRC/java/Io.java .; awk 'BEGIN { for (i = 0; i < 3000; i++) print \"line\", i }' > in.txt",
                "$RUN javac Io.java; for how in stream random channel lines nio; do \
                 $RUN java -cp . Io $how > $how.out; echo $?; done",
            ),
            &[],
        ),
        script(
            "node",
            &["node"],
            RECORDS,
            "$RUN node -e 'const fs = require(\"fs\"); const i = fs.openSync(\"in\"), \
             o = fs.openSync(\"out\", \"w\"); const b = Buffer.alloc(113); let n; \
             while ((n = fs.readSync(i, b)) > 0) fs.writeSync(o, b, 0, n); fs.closeSync(o); \
             fs.appendFileSync(\"out\", \"end\\n\"); fs.createReadStream(\"in\", {highWaterMark: 1000})\
             .pipe(fs.createWriteStream(\"streamed\")).on(\"finish\", () => console.log(fs.statSync(\"streamed\").size))'; \
             cmp in streamed",
        ),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_checks_are_different() {
        let mut names: Vec<String> = super::checks().map(|check| check.name).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
