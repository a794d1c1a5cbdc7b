//! `sweetspot top` finds who makes many small calls, quickly, and at next to no cost itself.
//!
//! Everything happens in a pid namespace of its own, so that there are exactly the processes that the
//! test makes, whatever else the machine does.

use test_start::stderr;

mod compiler;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Programs that read and write ten bytes at a time.
const OFFENDERS: [&str; 5] = ["offender1", "offender2", "offender3", "offender4", "offender5"];

/// Runs a shell script as the first process of a pid namespace, with `$TOP` and copies of `dd` that
/// are called like the offenders in the current folder.
fn in_namespace(script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for name in OFFENDERS {
        // By a process of its own: what other tests start must not have it open for writing.
        let copied = Command::new("cp").arg("/usr/bin/dd").arg(folder.path().join(name)).status();
        assert!(copied.unwrap().success());
    }
    let output = Command::new("unshare")
        .args(["-Urpf", "--mount-proc", "--kill-child", "sh", "-c"])
        // A guard that ends with its namespace leaves its ledger: in a /dev/shm that ends too.
        .arg(format!("mount -t tmpfs none /dev/shm\n{script}"))
        .env("TOP", env!("CARGO_BIN_EXE_sweetspot"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// Ninety-five processes that do nothing, and five offenders.
const HUNDRED: &str = "\
i=0; while [ $i -lt 95 ]; do sleep 60 & i=$((i+1)); done
for offender in offender*; do
  nice -n 19 ./$offender if=/dev/zero of=out.$offender bs=10 status=none count=100000000 &
done
";

/// The programs of a table, in its order.
fn programs(line: &str) -> Vec<String> {
    let table: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(table["schema_version"], 1);
    let programs = table["programs"].as_array().unwrap();
    programs.iter().map(|row| row["program"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn five_offenders_among_a_hundred_are_found_at_no_cost() {
    // The last number is the kernel's own count of what `top` used, in nanoseconds. The first time that it sees a
    // program it asks whether that can be buffered, which may take long on a busy machine.
    let script = format!(
        "{HUNDRED}
start=$(date +%s%N); $TOP top > table; end=$(date +%s%N)
begun=$(date +%s%N); $TOP top --json > tables & top=$!
for second in $(seq 60); do sleep 1; [ $(wc -l < tables) -ge 6 ] && break; done
used=$(cut -d' ' -f1 /proc/$top/schedstat); lasted=$(($(date +%s%N) - begun))
kill $top %96 %97 %98 %99 %100
rm -f out.*
cat table; echo; cat tables; echo $((end - start)) $lasted $used"
    );
    let output = in_namespace(&script);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<&str> = text.lines().skip(1).take(OFFENDERS.len()).collect();
    for offender in OFFENDERS {
        let found = rows.iter().any(|row| row.contains(&format!("./{offender} ")));
        assert!(found, "{offender} is missing in the first rows of:\n{text}");
    }
    assert!(rows.iter().all(|row| row.contains("sweetspot") && row.contains("bs=10")), "{text}");

    let tables: Vec<&str> = text.lines().filter(|line| line.starts_with('{')).collect();
    assert!(tables.len() >= 5, "{text}");
    for table in &tables {
        let mut found = programs(table);
        found.truncate(OFFENDERS.len());
        found.sort();
        assert_eq!(found, OFFENDERS, "{table}");
    }

    let numbers = text.lines().last().unwrap().split(' ');
    let times: Vec<Duration> =
        numbers.map(|number| Duration::from_nanos(number.parse().unwrap())).collect();
    let [first, lasted, used] = times[..] else { panic!("{text}") };
    assert!(first < Duration::from_secs(30), "the first table took {first:?}");
    assert!(used < lasted.mul_f64(0.01), "{used:?} of processor time in {lasted:?}");
}

#[test]
fn who_cannot_be_helped_is_said() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("top");
    fs::create_dir_all(&folder).unwrap();
    let source = "#include <fcntl.h>\n#include <unistd.h>\n\
                  int main(void) { int fd = open(\"/proc/self/exe\", O_RDONLY); char byte;\n\
                  for (;;) if (read(fd, &byte, 1) < 1) lseek(fd, 0, SEEK_SET); }\n";
    fs::write(folder.join("reader.c"), source).unwrap();
    for (name, options) in
        [("static-one", &["-static"][..]), ("plain-one", &[][..]), ("buffered-one", &[][..])]
    {
        let gcc = compiler::gcc()
            .args(options)
            .arg("-o")
            .arg(folder.join(name))
            .arg(folder.join("reader.c"))
            .status();
        assert!(gcc.is_ok_and(|status| status.success()), "gcc is needed: apt-get install gcc");
    }
    let shares = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c/shares_memory.c");
    let cc = Command::new("cc").arg("-o").arg(folder.join("sharing-one")).arg(shares).status();
    assert!(cc.is_ok_and(|status| status.success()), "cc is needed: apt-get install gcc");
    let script = format!(
        "for name in static plain; do nice {0}/$name-one & done
         nice {0}/sharing-one file 1000000 &
         $TOP run --buffer-size 1 -- nice {0}/buffered-one &
         nice dd if=/dev/zero bs=1 | cat > /dev/null & sleep 1; $TOP top --interval 1s",
        folder.display()
    );
    let output = in_namespace(&script);
    let text = String::from_utf8(output.stdout).unwrap();
    let check = |name: &str, reason: &str| {
        let line = text.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.contains(reason)), "{name}: {reason}:\n{text}");
    };
    check("plain-one", " -- ");
    check("static-one", "no: it is statically linked");
    check("buffered-one", "no: it runs under sweetspot already");
    check(" dd ", "no: it has no file open");
    check("sharing-one", "no: it shares writable memory");
}

#[test]
fn the_next_command_has_its_standard_input() {
    let script = "
./offender1 of=out bs=10 status=none <list.txt & offender=$!
mkdir elsewhere && cd elsewhere
../offender2 of=out bs=10 status=none </dev/zero & another=$!
sleep 0.1; cd ..; $TOP top --once --interval 500ms; kill $offender $another";
    let output = in_namespace(&format!("truncate -s 20G list.txt\n{script}"));
    let text = String::from_utf8(output.stdout).unwrap();
    let check = |name: &str, end: &str| {
        let line = text.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.ends_with(end)), "{name}: {end}:\n{text}");
    };
    check("offender1", "-- ./offender1 of=out bs=10 status=none <list.txt");
    check("offender2", "/elsewhere && sweetspot profile -- ../offender2 of=out bs=10 status=none");
}

#[test]
fn a_mistyped_interval_says_what_is_wanted() {
    let output = Command::new(env!("CARGO_BIN_EXE_sweetspot"))
        .args(["top", "--interval", "soon"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("2s or 500ms"), "{said}");
}
