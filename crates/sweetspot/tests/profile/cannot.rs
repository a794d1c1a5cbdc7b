//! What cannot be buffered, or is not seen: the reason is said, and nothing is promised.

use super::*;

#[test]
fn what_cannot_be_buffered_says_why() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 5_000]);
    let script = "dd bs=200 < in.dat > out.dat 2> /dev/null; \
                  dd if=in.dat bs=200 count=100 oflag=sync of=synchronous 2> /dev/null";
    let (_, profile) = place.profile(&["sh", "-c", script]);
    let check = |name: &str, reason: &str| {
        let file = file(&profile, &place.work().join(name));
        assert_eq!(file["verdict"], "not-buffered", "{file:#}");
        let reasons = file["reasons"].as_array().unwrap();
        assert!(reasons.iter().any(|found| found == reason), "{name}: {reasons:?}");
    };
    check("in.dat", "open before the program started, and another process may have it, too");
    check("synchronous", "opened for direct or synchronous access");
}

#[test]
fn streams_without_a_buffer_lead_to_stdio() {
    let place = Place::new();
    let source = "#include <stdio.h>\nint main(void) { FILE *f = fopen(\"out.txt\", \"w\");\n\
                  setvbuf(f, 0, _IONBF, 0); for (int i = 0; i < 200000; i++) fputs(\"line\\n\", f);\n\
                  return fclose(f); }\n";
    compile(&place, "lines", source, &[]);
    let (_, profile) = place.profile(&["./lines"]);
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains("Try: sweetspot run --stdio -- ./lines"), "{sentence}");
    assert_eq!(profile["insights"][0]["code"], "stdio", "{}", profile["insights"]);
}

/// `--stdio` would not help it either: as root tcpdump is such a program.
#[test]
fn streams_of_a_process_that_gave_up_rights_have_no_gain() {
    let place = Place::new();
    let source = "#include <stdio.h>\n#include <unistd.h>\nint main(void) {\n\
                  if (setgid(getgid())) return 1;\n\
                  FILE *f = fopen(\"out.txt\", \"w\");\n\
                  setvbuf(f, 0, _IONBF, 0); for (int i = 0; i < 200000; i++) fputs(\"line\\n\", f);\n\
                  return fclose(f); }\n";
    compile(&place, "lines", source, &[]);
    let (_, profile) = place.profile(&["./lines"]);
    let sentence = profile["sentence"].as_str().unwrap();
    let reason = "sweetspot cannot buffer it here: the process gave up rights, or is confined. ";
    assert!(sentence.starts_with(reason), "{sentence}");
    assert_eq!(file(&profile, &place.work().join("out.txt"))["reasons"][1], "used through stdio");
}

/// Nothing shows what processes tell each other through memory: such a program is not led to `run`.
#[test]
fn a_program_that_shares_memory_has_no_gain() {
    let place = Place::new();
    compile_program(&place, "shares_memory", &[]);
    let reason = "the process shares writable memory with another";
    for how in ["file", "protected", "sysv", "fork"] {
        let (output, profile) = place.profile(&["./shares_memory", how, "5"]);
        assert!(output.status.success(), "{output:?}");
        let sentence = profile["sentence"].as_str().unwrap();
        assert!(sentence.contains(reason) && !sentence.contains("Try:"), "{how}: {sentence}");
        assert!(sentence.contains("promise = \"unobserved\""), "what mends it: {sentence}");
        assert!(!sentence.contains("nothing to gain"), "a rule would let it gain: {sentence}");
        let written = file(&profile, &place.work().join("out"));
        assert_eq!(written["verdict"], "not-buffered", "{how}: {written:#}");
        assert_eq!(written["reasons"][0], reason, "{how}");
    }
    let (_, profile) = place.profile(&["./shares_memory", "none", "5"]);
    let written = file(&profile, &place.work().join("out"));
    assert_eq!(written["verdict"], "will-gain", "{written:#}");
    assert_eq!(profile["obstacle"], Value::Null);
}

/// Seeks come by the million and take a way of their own: failures are what they were, and a
/// library that stands before libc is asked.
#[test]
fn seeks_fail_as_they_did_and_are_another_librarys_where_there_is_one() {
    let place = Place::new();
    let input = place.write("in.dat", vec![b'x'; 1 << 20]);
    let source = "#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n\
                  #include <unistd.h>\nint main(void) { int fd = open(\"in.dat\", O_RDONLY);\n\
                  int bad = 0; long at = 0; for (int i = 0; i < 50000; i++) { errno = 0;\n\
                  if (i % 5 == 4) bad += lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL;\n\
                  else at = lseek(fd, i, SEEK_SET) + errno; }\n\
                  printf(\"%d %ld\\n\", bad, at); return 0; }\n";
    compile(&place, "seeks", source, &[]);
    let (output, profile) = place.profile(&["./seeks"]);
    assert_eq!(stdout(&output), "10000 49998\n");
    let seeks = file(&profile, &input);
    assert_eq!((number(seeks, "seeks"), number(seeks, "failed")), (50_000, 10_000), "{seeks:#}");
    let other = "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <unistd.h>\n\
                 off_t lseek(int fd, off_t to, int whence) {\n\
                 return syscall(SYS_lseek, fd, to, whence) + 1000000; }\n";
    compile(&place, "other.so", other, &["-shared", "-fPIC"]);
    let script = "LD_PRELOAD=$LD_PRELOAD:./other.so ./seeks";
    let (output, _) = place.profile(&["sh", "-c", script]);
    assert_eq!(stdout(&output), "0 1049998\n");
}

/// Names that are no memory are the kernel's to refuse, and what cannot be opened or closed has no
/// descriptor.
#[test]
fn what_cannot_be_opened_fails_as_it_did() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 100]);
    let source = "#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n\
                  #include <unistd.h>\n#define TRY(call) (errno = 0, printf(\"%d %d\\n\", call, errno))\n\
                  int main(void) { char *bad = (char *)8; for (int i = 0; i < 300; i++) {\n\
                  int fd = open(\"in.dat\", O_RDONLY); close(fd); }\n\
                  TRY(open(bad, O_RDONLY)); TRY(openat(AT_FDCWD, bad, O_RDONLY));\n\
                  TRY(openat(3, bad, O_RDONLY)); TRY(openat(99, \"in.dat\", O_RDONLY));\n\
                  TRY(open(\"none\", O_RDONLY)); TRY(creat(bad, 0600)); TRY(close(77));\n\
                  TRY(close(-1)); return 0; }\n";
    compile(&place, "bad", source, &["-Wno-nonnull"]);
    let plain = Command::new("./bad").current_dir(place.work()).output().unwrap();
    let (output, _) = place.profile(&["./bad"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stdout(&output), stdout(&plain));
}

/// As PHP loads its extensions: nothing is buffered from then on.
#[test]
fn a_program_that_loads_libraries_apart_has_no_gain() {
    let place = Place::new();
    let input = place.write("in.dat", vec![b'x'; 200 * 20_000]);
    let source = "#include <dlfcn.h>\n#include <fcntl.h>\n#include <unistd.h>\n\
                  int main(void) { char b[200]; dlopen(\"libm.so.6\", RTLD_NOW | 8);\n\
                  int fd = open(\"in.dat\", O_RDONLY); while (read(fd, b, 200) > 0); return 0; }\n";
    compile(&place, "apart", source, &["-ldl"]);
    let (_, profile) = place.profile(&["./apart"]);
    let file = file(&profile, &input);
    assert_eq!(file["verdict"], "not-buffered", "{file:#}");
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("whose calls are not seen (RTLD_DEEPBIND or RTLD_NEXT). "),
        "{sentence}"
    );
}

#[test]
fn a_static_program_gets_its_sizes_from_the_kernel() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 100 * 20_000]);
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char b[100];\n\
                  int fd = open(\"in.dat\", O_RDONLY); while (read(fd, b, 100) > 0); return 0; }\n";
    compile(&place, "static", source, &["-static"]);
    let (output, profile) = place.profile(&["./static"]);
    assert!(output.status.success());
    let coverage = &profile["coverage"];
    assert_eq!(coverage["verdict"], "nothing", "{coverage}");
    let reads = number(&coverage["kernel"], "reads");
    assert!((20_000..20_100).contains(&reads), "{coverage}");
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains("statically linked"), "{sentence}");
    assert!(sentence.contains("Hint: it reads 100 bytes at a time"), "{sentence}");
    // A process that is not seen, in a tree that is: the sentence is about that one.
    let (_, profile) = place.profile(&["sh", "-c", "./static; exit 0"]);
    assert_eq!(profile["coverage"]["verdict"], "part", "{}", profile["coverage"]);
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains("Hint: it reads 100 bytes at a time"), "{sentence}");
}

/// Calls through io_uring are in no counter, not even the kernel's.
#[test]
fn a_process_with_io_uring_is_not_seen() {
    let place = Place::new();
    let source = "#include <sys/syscall.h>\n#include <unistd.h>\n#include <string.h>\n\
                  int main(void) { char p[120]; memset(p, 0, sizeof p);\n\
                  return syscall(SYS_io_uring_setup, 4, p) < 0; }\n";
    compile(&place, "ring", source, &[]);
    let (output, profile) = place.profile(&["./ring"]);
    if !output.status.success() {
        test_start::skip("this machine has no io_uring");
        return;
    }
    assert_eq!(profile["coverage"]["verdict"], "part", "{}", profile["coverage"]);
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains("io_uring"), "{sentence}");
}

/// What is promised is what `run` would do here, under the same rules and the same size.
#[test]
fn rules_and_sizes_hold_for_what_is_promised() {
    let place = Place::new();
    place.write(
        "sweetspot.toml",
        "[[rule]]\nfile = \"off.dat\"\nbuffer = \"off\"\n\
         [[rule]]\nprogram = \"dd\"\nfile = \"small.dat\"\nbuffer = \"4K\"\n\
         [[rule]]\nprogram = \"others\"\nfile = \"auto.dat\"\nbuffer = \"off\"\n",
    );
    let script = "for file in off small auto; do \
                  dd if=/dev/zero of=$file.dat bs=200 count=20000 2> /dev/null; done";
    let reason = "switched off by a rule or by the buffer size";
    let is_off = |file: &Value| {
        file["verdict"] == "not-buffered" && file["reasons"] == serde_json::json!([reason])
    };
    let (_, profile) = place.profile(&["sh", "-c", script]);
    let [off, small, auto] = ["off", "small", "auto"]
        .map(|name| file(&profile, &place.work().join(format!("{name}.dat"))));
    assert!(is_off(off), "{off:#}");
    let flushes = |file: &Value| number(&file["buffered"], "flushes");
    assert_eq!(flushes(off), 0, "{off:#}");
    assert!((900..1100).contains(&flushes(small)), "{small:#}");
    assert!((1..500).contains(&flushes(auto)), "{auto:#}");

    let mut switched_off = place.sweetspot(&["profile", "--output", "../report", "--json"]);
    switched_off.args(["p.json", "--", "sh", "-c", script]).env("IO_BUFFER_SIZE", "off");
    assert!(switched_off.status().unwrap().success());
    let profile = fs::read(place.work().join("p.json")).unwrap();
    let profile: Value = serde_json::from_slice(&profile).unwrap();
    let auto = file(&profile, &place.work().join("auto.dat"));
    assert!(is_off(auto), "{auto:#}");
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains(reason) && sentence.contains("unset IO_BUFFER_SIZE"), "{sentence}");

    place.write("sweetspot.toml", "[[rule]]\nbufer = 1\n");
    let output = place.sweetspot(&["profile", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
}

/// Where memory is shared, a rule leaves the files that nobody looks at as they are, and no others.
#[test]
fn a_promise_is_for_its_files_alone() {
    let place = Place::new();
    let headers = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../programs/c");
    compile_program(&place, "unobserved", &[headers]);
    place.write("sweetspot.toml", "[[rule]]\nfile = \"mine.*\"\npromise = \"unobserved\"\n");
    let (output, profile) = place.profile(&["./unobserved", "silent"]);
    assert!(output.status.success(), "{output:?}");
    let reason = Value::from("the process shares writable memory with another");
    for (name, is_refused) in [("mine.dat", false), ("mine.1", false), ("seen.1", true)] {
        let file = file(&profile, &place.work().join(name));
        let is_said = file["reasons"].as_array().unwrap().contains(&reason);
        assert_eq!(is_said, is_refused, "{file:#}");
    }
    // It is no reason that would hold for all files of a process.
    for process in profile["processes"].as_array().unwrap() {
        assert!(!process["reasons"].as_array().unwrap().contains(&reason), "{process:#}");
    }
}
