//! Where calls are made, and what happened when: `--where`, `--record`, the picture of a run.

use super::*;

#[test]
fn what_was_done_when_is_told_and_drawn() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 30_000]);
    let script = "import os, time\n\
                  fd = os.open('in.dat', os.O_RDONLY)\n\
                  for _ in range(3):\n\
                  \x20   for _ in range(10_000): os.read(fd, 200)\n\
                  \x20   time.sleep(1.1)\n";
    let (_, profile) = place.profile(&["python3", "-c", script]);
    let moments = profile["timeline"].as_array().unwrap();
    let seconds = |moment: &Value| moment["seconds"].as_f64().unwrap();
    let first = (seconds(&moments[0]), number(&moments[0], "calls"));
    assert_eq!(first, (0.0, 0));
    let last = moments.last().unwrap();
    assert_eq!(seconds(last), profile["seconds"].as_f64().unwrap());
    let files = profile["files"].as_array().unwrap();
    let calls = |name: &str| files.iter().map(|file| number(file, name)).sum::<u64>();
    assert_eq!(number(last, "calls"), calls("reads") + calls("writes") + calls("seeks"));
    assert_eq!(number(last, "bytes"), calls("read_bytes") + calls("written_bytes"));
    assert!(moments.is_sorted_by(|one, next| seconds(one) < seconds(next)), "{moments:#?}");
    let still = |two: &&[Value]| two[0]["calls"] == two[1]["calls"];
    let still: f64 =
        moments.windows(2).filter(still).map(|two| seconds(&two[1]) - seconds(&two[0])).sum();
    assert!(still > 0.6, "three naps of 0.4 s: {moments:#?}");
    let json = place.folder.path().join("profile.json");
    let output = place.sweetspot(&["report", "--html", "-"]).arg(json).output().unwrap();
    let page = stdout(&output);
    for title in ["Calls a second during the run", "Bytes a second during the run"] {
        assert!(page.contains(title), "{title}: {}", stderr(&output));
    }
}

/// Far more processes than have lines: the lines add up to all that was counted, and each process
/// has its files to itself.
#[test]
fn lines_of_processes_add_up() {
    let place = Place::new();
    let script = "i=0; while [ $i -lt 100 ]; do dd if=/dev/zero of=out.$i bs=10 count=50 2>&-; \
                  i=$((i+1)); done";
    let (_, profile) = place.profile(&["sh", "-c", script]);
    let files = profile["files"].as_array().unwrap();
    assert!(files.iter().all(|file| file["process"].is_u64()), "{files:?}");
    let calls = |list: &str, names: &[&str]| -> u64 {
        let list = profile[list].as_array().unwrap().iter();
        list.map(|item| names.iter().map(|name| number(item, name)).sum::<u64>()).sum()
    };
    let all = calls("files", &["reads", "writes", "seeks"]);
    assert_eq!(calls("processes", &["calls"]), all);
    assert!(all >= 100 * 100, "{all}");
    let report = place.report();
    // Few files are shown, and all are in JSON: a hundred, /dev/zero for each, and the shell's.
    assert!(report.contains(" files more: ") && report.lines().count() < 60, "{report}");
    assert!(profile["files"].as_array().unwrap().len() >= 200);
    let lines = report.lines().skip_while(|line| !line.starts_with("process "));
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    let shown = lines.map(|line| {
        // Name (40 columns), process id, calls.
        let calls: String = line.chars().skip(40 + 12).take(12).collect();
        calls.replace(',', "").trim().parse::<u64>().unwrap_or_else(|_| panic!("{report}"))
    });
    assert_eq!(shown.sum::<u64>(), all, "{report}");
}

/// A copy in small pieces, in C and C++; `NAME` is what the function is called.
const COPY: &str = r#"
#include <fcntl.h>
#include <unistd.h>
COPY(int in, int out, int n) {
    char record[200];
    for (int i = 0; i < n; i++) {
        if (read(in, record, sizeof record) <= 0) return;
        if (write(out, record, sizeof record) < 0) return;
    }
}
"#;

const MAIN: &str = r#"
int main(int count, char **names) {
    int in = open(names[1], O_RDONLY), out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    copy_records(in, out, 1000000);
    return 0;
}
"#;

#[test]
fn where_names_function_file_and_line() {
    let place = Place::new();
    place.write("in", vec![b'r'; 8_000_000]);
    let c =
        format!("{}{MAIN}", COPY.replace("COPY", "__attribute__((noinline)) void copy_records"));
    for options in ["-O1 -g", "-O2 -g -fno-pie -no-pie", "-O2 -g -fomit-frame-pointer -pthread"] {
        let program = place.compile("copy.c", &c, &format!("cc {options} -o program"));
        let (found, report) = place.place_of(&[&program, "in"]);
        assert_eq!(found["function"], "copy_records", "{options}: {found:#}");
        assert!(found["file"].as_str().unwrap().ends_with("/copy.c"), "{found:#}");
        assert_eq!(found["line"], 8, "{options}: {found:#}");
        assert!(found["inlined_into"].is_null(), "{found:#}");
        assert!(report.contains("  100 % by copy_records (copy.c:8)\n"), "{report}");
        let advice = report.lines().find(|line| line.starts_with("* ")).unwrap();
        assert!(advice.contains("are made by copy_records (copy.c:"), "{report}");
    }
    // Nothing is said that was not asked for.
    let (_, profile) = place.profile(&[&place.work().join("program").to_string_lossy(), "in"]);
    assert_eq!(file(&profile, &place.work().join("out"))["places"], serde_json::json!([]));
    // Without debug information: the function; without symbols: the place in the file.
    let program = place.compile("copy.c", &c, "cc -O1 -o program");
    let (found, report) = place.place_of(&[&program, "in"]);
    assert!(found["function"] == "copy_records" && found["line"].is_null(), "{found:#}");
    assert!(report.contains("  100 % by copy_records in program\n"), "{report}");
    let program = place.compile("copy.c", &c, "cc -O1 -s -o program");
    let (found, report) = place.place_of(&[&program, "in"]);
    assert!(found["function"].is_null() && found["module"] == program, "{found:#}");
    let offset = number(&found, "offset");
    assert!(report.contains(&format!("  100 % by program+{offset:#x}\n")), "{report}");
}

#[test]
fn where_knows_other_languages_and_libraries() {
    let place = Place::new();
    place.write("in", vec![b'r'; 8_000_000]);
    let inlined = "static inline __attribute__((always_inline)) void copy_records";
    let cxx = format!(
        "namespace records {{ {} }}\nusing namespace records;\n{MAIN}",
        COPY.replace("COPY", inlined).replace("#include <fcntl.h>\n#include <unistd.h>\n", "")
    );
    let cxx = format!("#include <fcntl.h>\n#include <unistd.h>\n{cxx}");
    let program = place.compile("copy.cpp", &cxx, "c++ -O2 -g -o program");
    let (found, report) = place.place_of(&[&program, "in"]);
    let function = found["function"].as_str().unwrap();
    assert!(function.contains("copy_records"), "{found:#}");
    assert_eq!(found["inlined_into"], "main", "{found:#}");
    assert!(report.contains(", inlined into main\n"), "{report}");

    let rust = "use std::io::{Read, Write};
        #[inline(never)]
        fn copy_records(mut input: std::fs::File, mut output: std::fs::File) {
            let mut record = [0; 200];
            while input.read(&mut record).unwrap() > 0 { output.write_all(&record).unwrap(); }
        }
        fn main() {
            let input = std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap();
            copy_records(input, std::fs::File::create(\"out\").unwrap());
        }";
    let program = place.compile("copy.rs", rust, "rustc -O -g -o program");
    let (found, _) = place.place_of(&[&program, "in"]);
    // What calls the C library is Rust's own: its caller is not looked for.
    assert_eq!(found["module"], program, "{found:#}");
    assert!(found["function"].as_str().unwrap().contains("::write"), "{found:#}");
    assert!(found["line"].is_u64(), "{found:#}");

    // A library that is loaded while the program runs.
    let library = COPY.replace("COPY", "void copy_records");
    place.compile("part.c", &library, "cc -O1 -g -shared -fPIC -o part.so");
    let main = "#include <dlfcn.h>\n#include <fcntl.h>\ntypedef void Copy(int, int, int);
        int main(int count, char **names) {
            void *part = dlopen(\"./part.so\", RTLD_NOW);
            int in = open(names[1], O_RDONLY), out = open(\"out\", O_WRONLY | O_CREAT | O_TRUNC, 0644);
            ((Copy *)dlsym(part, \"copy_records\"))(in, out, 1000000);
            dlclose(part);
            return 0;
        }";
    let program = place.compile("main.c", main, "cc -O1 -o program");
    let (found, _) = place.place_of(&[&program, "in"]);
    assert!(found["module"].as_str().unwrap().ends_with("/part.so"), "{found:#}");
    assert!(found["function"] == "copy_records" && found["line"] == 8, "{found:#}");

    let script = "import os\nout = os.open('out', os.O_WRONLY | os.O_CREAT)\n\
                  for _ in range(40000): os.write(out, b'r' * 200)\n";
    place.write("script.py", script);
    let (found, report) = place.place_of(&["/usr/bin/python3.11", "script.py"]);
    assert!(found["module"].as_str().unwrap().contains("python3.11"), "{found:#}");
    assert!(report.contains(", of the interpreter: the call is in its script\n"), "{report}");
}

/// Each thread and each handler has its own stack: what one notes is never the other's.
#[test]
fn where_tells_threads_and_handlers_apart() {
    let place = Place::new();
    let source = r#"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
static int files[3];
__attribute__((noinline)) void in_handler(int number) { (void)number, write(files[2], "h", 1); }
__attribute__((noinline)) void *in_thread(void *none) {
    for (int i = 0; i < 200000; i++) write(files[1], "t", 1);
    return none;
}
__attribute__((noinline)) void in_main(void) {
    for (int i = 0; i < 200000; i++) write(files[0], "m", 1);
}
int main(void) {
    const char *names[] = {"main", "thread", "handler"};
    for (int i = 0; i < 3; i++) files[i] = open(names[i], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    signal(SIGALRM, in_handler);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    in_main();
    pthread_join(thread, NULL);
    return 0;
}
"#;
    let program = place.compile("threads.c", source, "cc -O1 -g -w -pthread -o program");
    let json = place.folder.path().join("profile.json");
    let mut command = place.sweetspot(&["profile", "--where", "--json"]);
    command.arg(&json).args(["--output", "../report", "--", &program]);
    assert!(command.status().unwrap().success());
    let profile: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    for name in ["main", "thread", "handler"] {
        let found = file(&profile, &place.work().join(name));
        let places = found["places"].as_array().unwrap();
        let expected = format!("in_{name}");
        assert!(places.iter().all(|place| place["function"] == *expected), "{name}: {places:#?}");
        // Handlers are seldom enough that none may have been looked at.
        assert!(!places.is_empty() || name == "handler", "{name}");
    }
}

/// What shadows of the size in force do with the recorded calls is what those beside the run did: the
/// same counts, so the same prediction, however the calls were sampled.
#[test]
fn a_recording_says_of_auto_what_the_profile_says() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 50_000]);
    place.write("early", vec![b'x'; 200 * 10_000]);
    let recording = place.folder.path().join("job.recording");
    // In order, back and forth, vectors, positions, appends, two at once, and files from outside.
    // The first file was changed just before and is old enough while it is read: its times are asked then.
    let python = "import os, random, time\n\
                  os.utime('in.dat')\n\
                  fd = os.open('in.dat', os.O_RDONLY)\n\
                  for i in range(1000): os.read(fd, 200)\n\
                  time.sleep(1.1)\n\
                  out = os.open('out.dat', os.O_CREAT | os.O_RDWR)\n\
                  log = os.open('log', os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n\
                  while True:\n\
                  \x20   record = os.read(fd, 200)\n\
                  \x20   if not record: break\n\
                  \x20   os.write(out, record)\n\
                  \x20   if random.random() < 0.1: os.write(log, b'line')\n\
                  \x20   if random.random() < 0.001: os.stat('in.dat')\n\
                  for i in range(20000):\n\
                  \x20   if i % 16 == 0: os.lseek(fd, random.randrange(9000000), os.SEEK_SET)\n\
                  \x20   os.read(fd, 100)\n\
                  for i in range(20000): os.pread(fd, 50, i * 50); os.pwrite(out, b'x' * 50, i * 50)\n\
                  for i in range(300): os.writev(out, [b'a' * 10, b'b' * 10])\n";
    let script = format!(
        "dd bs=200 of=late 2> /dev/null < early; python3 -c \"{python}\" >> out; \
                          for i in 1 2; do python3 -c \"{python}\"; done"
    );
    let json = place.folder.path().join("profile.json");
    let profiled = place
        .sweetspot(&["profile", "--output", "../report", "--json"])
        .arg(&json)
        .arg("--record")
        .arg(&recording)
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    assert!(profiled.status.success(), "{profiled:?}");
    let profile: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let told = place.sweetspot(&["tune", "--json", "--from"]).arg(&recording).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let rows = told["predicted"].as_array().unwrap();
    let row = |buffer: &str| rows.iter().find(|row| row["buffer"] == buffer).unwrap();
    let seconds = |row: &Value| row["seconds"].as_f64().unwrap();
    let expected = profile["prediction"]["seconds"].as_f64().unwrap();
    let error = seconds(row("auto")) / expected - 1.0;
    assert!(error.abs() < 1e-9, "{error}: {:#} {:#}", row("auto"), profile["prediction"]);
    // Calls that go away take time, and small buffers leave more of them. What a call takes is measured:
    // where others keep the machine busy, the smallest buffer may seem to gain nothing.
    assert!(seconds(row("off")) > seconds(row("64K")), "{rows:#?}");
    assert!(seconds(row("4K")) > seconds(row("64K")), "{rows:#?}");

    let size = fs::metadata(&recording).unwrap().len();
    let calls: u64 =
        profile["processes"].as_array().unwrap().iter().map(|p| number(p, "calls")).sum();
    assert!(size < calls, "{size} bytes for {calls} calls");
    let other = place.write("mine", b"something else");
    let refused = place.sweetspot(&["profile", "--record", "mine", "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(125));
    assert_eq!(fs::read(&other).unwrap(), b"something else");
}

/// A run of very many calls finds room: fewer of them are followed, and each stands for more.
#[test]
fn a_long_run_is_sampled_and_nothing_of_it_is_missing() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 64 << 10]);
    let recording = place.folder.path().join("job.recording");
    // Each file's first calls are all followed while there is room: 300 files of 4,000 reads do not fit.
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char record[16];\n\
                  for (int i = 0; i < 300; i++) { int fd = open(\"in.dat\", O_RDONLY);\n\
                  for (int j = 0; j < 4000; j++) if (read(fd, record, 16) != 16) return 1;\n\
                  close(fd); } return 0; }\n";
    compile(&place, "reads", source, &[]);
    let json = place.folder.path().join("profile.json");
    let mut profile = place.sweetspot(&["profile", "--output", "../report", "--json"]);
    profile.arg(&json).arg("--record").arg(&recording).args(["--", "./reads"]);
    assert!(profile.output().unwrap().status.success());
    let profile: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let told = place.sweetspot(&["tune", "--json", "--from"]).arg(&recording).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(!told["notes"].to_string().contains("found no room"), "{:#}", told["notes"]);
    let auto = told["predicted"].as_array().unwrap().last().unwrap();
    let expected = profile["prediction"]["seconds"].as_f64().unwrap();
    let error = auto["seconds"].as_f64().unwrap() / expected - 1.0;
    assert!(error.abs() < 1e-9, "{error}");
    // 16 reads a file are not enough to earn a window, the others are hits.
    let hits = number(&file(&profile, &place.work().join("in.dat"))["buffered"], "hits");
    assert!((1_150_000..=1_200_000).contains(&hits), "{hits}");
}
