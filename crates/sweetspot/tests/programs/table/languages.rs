//! Programs in other languages, each with the library that its language brings.

use super::{Case, DEFAULT, FEW_CALLS, FORKED, LINES};
use crate::build::Build::{Cobol, Cxx, Fortran, Java, Rust};

pub const LANGUAGES: &[Case] = &[
    Case {
        group: "cxx",
        name: "streams",
        build: &[Cxx("streams")],
        prepare: LINES,
        command: "$RUN $BIN/cxx/streams",
        ends: "exit 12",
        ..DEFAULT
    },
    Case {
        group: "cxx",
        name: "streams to a file",
        build: &[Cxx("streams")],
        prepare: LINES,
        command: "$RUN $BIN/cxx/streams > said 2>&1",
        ends: "exit 12",
        ..DEFAULT
    },
    Case {
        group: "cxx",
        name: "threads end, throw and are looked at in the middle of calls",
        build: &[Cxx("unwound")],
        command: "$RUN $BIN/cxx/unwound",
        ends: "exit 12",
        not_predicted: "how many calls it makes depends on the clock",
        ..DEFAULT
    },
    Case {
        group: "cobol",
        name: "sequential copy",
        build: &[Cobol("seqcopy")],
        prepare: "seq -f '%0200.0f' 5000 | tr -d '\\n' > in.dat",
        command: "$RUN $BIN/cobol/seqcopy",
        ..DEFAULT
    },
    Case {
        group: "cobol",
        name: "sequential rewrite and extend",
        build: &[Cobol("rewrite")],
        prepare: "seq -f '%080.0f' 3000 | tr -d '\\n' > update.dat",
        command: "$RUN $BIN/cobol/rewrite",
        ..DEFAULT
    },
    Case {
        group: "cobol",
        name: "relative",
        build: &[Cobol("relative")],
        command: "$RUN $BIN/cobol/relative",
        ..DEFAULT
    },
    Case {
        group: "cobol",
        name: "line sequential with display",
        build: &[Cobol("lines")],
        prepare: "seq -f 'a line of text %g and more   ' 3000 > lines.txt",
        command: "$RUN $BIN/cobol/lines",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "cobol",
        name: "line sequential to one file",
        build: &[Cobol("lines")],
        prepare: "seq -f 'a line of text %g and more   ' 3000 > lines.txt",
        command: "{ $RUN $BIN/cobol/lines; echo done; } > said 2>&1",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "cobol",
        name: "two files in turns",
        build: &[Cobol("inturns")],
        command: "$RUN $BIN/cobol/inturns",
        ends: "exit 7",
        ..DEFAULT
    },
    Case {
        group: "fortran",
        name: "stream",
        build: &[Fortran("stream")],
        command: "$RUN $BIN/fortran/stream",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "fortran",
        name: "direct",
        build: &[Fortran("direct")],
        command: "$RUN $BIN/fortran/direct",
        ..DEFAULT
    },
    Case {
        group: "fortran",
        name: "formatted with flush",
        build: &[Fortran("formatted")],
        command: "$RUN $BIN/fortran/formatted",
        ends: "exit 3",
        ..DEFAULT
    },
    Case {
        group: "fortran",
        name: "unbuffered by its own switch",
        build: &[Fortran("formatted"), Fortran("stream")],
        command: "export GFORTRAN_UNBUFFERED_ALL=y; $RUN $BIN/fortran/formatted > said; $RUN $BIN/fortran/stream",
        ..DEFAULT
    },
    Case {
        group: "java",
        name: "streams",
        build: &[Java("Io")],
        prepare: LINES,
        command: "$RUN java -cp $BIN/java Io stream",
        ..DEFAULT
    },
    Case {
        group: "java",
        name: "RandomAccessFile",
        build: &[Java("Io")],
        command: "$RUN java -cp $BIN/java Io random",
        ..DEFAULT
    },
    Case {
        group: "java",
        name: "FileChannel",
        build: &[Java("Io")],
        prepare: LINES,
        command: "$RUN java -cp $BIN/java Io channel",
        ..DEFAULT
    },
    Case {
        group: "java",
        name: "readLine and println",
        build: &[Java("Io")],
        prepare: "seq 5000 > in.txt",
        command: "$RUN java -cp $BIN/java Io lines",
        ..DEFAULT
    },
    Case {
        group: "java",
        name: "Files, a child, threads, exit",
        build: &[Java("Io")],
        command: "$RUN java -cp $BIN/java Io nio",
        ends: "exit 5",
        ..DEFAULT
    },
    Case {
        group: "python",
        name: "buffering 0",
        needs: &["python3"],
        prepare: LINES,
        command: "$RUN python3 $SRC/python/unbuffered.py",
        ends: "exit 98",
        ..DEFAULT
    },
    Case {
        group: "python",
        name: "updates in every mode",
        needs: &["python3"],
        prepare: "seq 8000 > update.txt",
        command: "$RUN python3 $SRC/python/update.py",
        ..DEFAULT
    },
    Case {
        group: "python",
        name: "descriptors",
        needs: &["python3"],
        prepare: LINES,
        command: "$RUN python3 $SRC/python/descriptors.py",
        ..DEFAULT
    },
    Case {
        group: "python",
        name: "children",
        needs: &["python3"],
        prepare: LINES,
        command: "$RUN python3 $SRC/python/processes.py",
        ends: "exit 4",
        not_predicted: FORKED,
        ..DEFAULT
    },
    Case {
        group: "python",
        name: "archives",
        needs: &["python3"],
        prepare: LINES,
        command: "$RUN python3 $SRC/python/archives.py",
        ..DEFAULT
    },
    Case {
        group: "python",
        name: "unbuffered output to a file",
        needs: &["python3"],
        command: "{ $RUN python3 -u -c 'for i in range(3000): print(i)'; echo done; } > out",
        ..DEFAULT
    },
    Case {
        group: "perl",
        name: "sysread, syswrite, sysseek",
        needs: &["perl"],
        prepare: "seq -f 'line %058.0f' 3000 > in.txt; seq 3000 > edit.txt",
        command: "$RUN perl $SRC/perl/sysio.pl",
        ends: "exit 3",
        ..DEFAULT
    },
    Case {
        group: "perl",
        name: "edit in place and one-liners",
        needs: &["perl"],
        prepare: LINES,
        command: "$RUN perl -i.bak -pe 's/1/one/g' in.txt; \
                  $RUN perl -ne 'BEGIN{$|=1} print scalar reverse $_' in.txt > out; \
                  $RUN perl -e '$/=\\17; while(<STDIN>){syswrite STDOUT, $_}' < in.txt > out2",
        ..DEFAULT
    },
    Case {
        group: "node",
        name: "readSync, writeSync and streams",
        needs: &["node"],
        prepare: LINES,
        command: "$RUN node $SRC/node/sync.js",
        ends: "exit 8",
        ..DEFAULT
    },
    Case {
        group: "node",
        name: "console to a file",
        needs: &["node"],
        command: "$RUN node -e 'for (let i=0;i<2000;i++) console.log(i); console.error(\"end\")' > out 2>&1",
        ..DEFAULT
    },
    Case {
        group: "rust",
        name: "println and File",
        build: &[Rust("lines")],
        prepare: LINES,
        command: "$RUN $BIN/rust/lines",
        ends: "exit 1",
        ..DEFAULT
    },
    Case {
        group: "rust",
        name: "println to a file",
        build: &[Rust("lines")],
        prepare: LINES,
        command: "{ $RUN $BIN/rust/lines; echo $?; } > said 2>&1",
        ..DEFAULT
    },
];
