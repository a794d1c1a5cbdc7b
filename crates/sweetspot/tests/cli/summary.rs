//! The summary: where it goes, and what it lists.

use super::*;

#[test]
fn the_summary_goes_where_it_is_wanted() {
    let place = Place::new();
    let program = ["sh", "-c", "echo out; echo err >&2; exit 4"];
    let output = place.run(&["--summary"], &program).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(4), "out\n"));
    let said = stderr(&output);
    assert!(
        said.starts_with("err\nsweetspot summary\n") && said.contains("exit status 4"),
        "{said}"
    );

    let file = place.work().join("summary.txt");
    let option = format!("--summary={}", file.display());
    for _ in 0..2 {
        let output = place.run(&[&option], &program).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(4), "err\n"));
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("sweetspot summary").count(), 1, "{text}");
    }
    let output = place.run(&[&option], &["sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    assert!(fs::read_to_string(&file).unwrap().contains("ended by signal 9"));

    let new = place.work().join("new.txt");
    let option = format!("--summary={}", new.display());
    assert_fails(&mut place.run(&[&option], &["./nowhere"]), 127, &["no such file"]);
    assert!(!new.exists(), "nothing is left where nothing ran");
    symlink("new.txt", place.work().join("link")).unwrap();
    assert_fails(&mut place.run(&["--summary=link"], &["./nowhere"]), 127, &["no such file"]);
    assert!(!new.exists(), "nor behind a link that was there");
    assert!(place.work().join("link").is_symlink());

    let precious = place.write("precious.dat", "years of work");
    let option = format!("--summary={}", precious.display());
    assert_fails(&mut place.run(&[&option], &["echo", "ran"]), 125, &["not overwritten"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "years of work");
    let nowhere = ["--summary=/no/such/folder/file"];
    assert_fails(&mut place.run(&nowhere, &["echo", "ran"]), 125, &["/no/such/folder/file"]);
}

#[test]
fn it_is_said_who_has_switched_buffering_off() {
    let place = Place::new();
    place.write("in", "x".repeat(100_000));
    let copy = ["dd", "if=in", "of=out", "bs=10", "status=none"];
    let check = |options: &[&str], size: Option<&str>, who: &str| {
        let mut run = place.run(&[&["--summary"], options].concat(), &copy);
        run.envs(size.map(|size| ("IO_BUFFER_SIZE", size)));
        let said = stderr(&run.output().unwrap());
        assert!(
            said.contains(&format!("buffered  no: the buffer size is off, by {who}\n")),
            "{said}"
        );
        assert!(!said.contains("often enough"), "{said}");
    };
    check(&["--buffer-size", "off"], None, "--buffer-size");
    check(&["--buffer-size=-1"], Some("64K"), "--buffer-size");
    check(&["-DIO-BUFFER-SIZE=off"], None, "-DIO-BUFFER-SIZE");
    check(&[], Some("off"), "IO_BUFFER_SIZE");
}

#[test]
fn a_fifo_takes_the_summary_if_somebody_reads_it() {
    let place = Place::new();
    let path = place.work().join("fifo");
    make_fifo(&path);
    let option = ["--summary=fifo"];
    let parts = ["--summary=fifo: nobody reads there", "cat fifo &"];
    assert_fails(&mut place.run(&option, &["echo", "ran"]), 125, &parts);
    // The reader may come a moment later.
    let mut child = place.run(&option, &["true"]).spawn().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(wait(&mut child).success());
    assert!(text.starts_with("sweetspot summary\n") && text.contains("exit status 0"), "{text}");
}

/// What the program wrote into the file of an option is never lost.
#[test]
fn the_summary_leaves_alone_what_the_program_wrote() {
    let place = Place::new();
    let file = place.work().join("out");
    let before: [(&str, &dyn Fn()); 3] = [
        ("absent", &|| fs::remove_file(&file).unwrap_or(())),
        ("empty", &|| fs::write(&file, "").unwrap()),
        ("an older summary", &|| fs::write(&file, "sweetspot summary\nof another run\n").unwrap()),
    ];
    let programs = [
        "echo precious > out",
        "echo precious >> out",
        "echo precious > new; mv new out",
        "rm out; echo precious > out",
        "echo precious > out; touch -d 2001-01-01 out",
    ];
    for (what, prepare) in before {
        for program in programs {
            prepare();
            let output = place.run(&["--summary=out"], &["sh", "-c", program]).output().unwrap();
            assert!(output.status.success(), "{what}: {program}");
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.ends_with("precious\n"), "{what}: {program}: {text}");
            let said = stderr(&output);
            let parts = ["out", "left alone", "sweetspot summary\n", "exit status 0"];
            assert!(parts.iter().all(|part| said.contains(part)), "{what}: {program}: {said}");
        }
        prepare();
        let output = place.run(&["--summary=out"], &["cat", "out"]).output().unwrap();
        assert_eq!(stderr(&output), "", "{what}: it was only read");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("sweetspot summary\n").count(), 1, "{what}: {text}");
        assert!(text.contains("exit status 0"), "{what}: {text}");
    }
    fs::remove_file(&file).unwrap();
    let mut command = place.sweetspot(&["profile", "--json", "out", "--"]);
    let output = command.args(["sh", "-c", "echo precious > out"]).output().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious\n", "{}", stderr(&output));
}

#[test]
fn files_that_only_passed_through_are_listed_with_the_reason() {
    let place = Place::new();
    place.write("data", "x".repeat(8_000_000));
    let copy = |from: &str, to: &str, size: &str| {
        let words = ["dd", from, to, size, "status=none"];
        stderr(&place.run(&["--summary"], &words).output().unwrap())
    };
    let said = copy("if=data", "of=large", "bs=100000");
    // One more read finds the end, and at the beginning dd asks for its position.
    for (file, calls, passed) in [("data", "82", "81"), ("large", "80", "80")] {
        let line = said.lines().find(|line| line.contains(&format!("/work/{file}"))).unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().skip(1).take(2).collect();
        assert_eq!(words, ["auto", calls], "{said}");
        let end = format!("{passed}: already read or written in large pieces");
        assert!(line.ends_with(&end), "{said}");
    }
    let said = copy("if=data", "of=/dev/null", "bs=1000");
    assert!(said.contains("/dev/null") && said.contains("not a regular file"), "{said}");
    let said = copy("if=data", "of=few", "bs=1000000");
    assert!(!said.contains("/work/"), "eight calls are not worth a line: {said}");
}

/// Where nothing is buffered all calls are left, and no more than there were.
#[test]
fn calls_that_pass_through_are_counted_before_and_after() {
    let place = Place::new();
    let script = "import os\n\
                  fd = os.open('jumps.dat', os.O_RDWR | os.O_CREAT, 0o600)\n\
                  os.truncate(fd, 100 << 20)\n\
                  for i in range(100):\n\
                  \x20   os.lseek(fd, (i * 37 % 100) << 20, os.SEEK_SET)\n\
                  \x20   assert len(os.read(fd, 10)) == 10\n\
                  import mmap\n\
                  fd = os.open('mapped.dat', os.O_RDWR | os.O_CREAT, 0o600)\n\
                  os.truncate(fd, 1 << 20)\n\
                  memory = mmap.mmap(fd, 1 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ)\n\
                  for i in range(100): assert len(os.read(fd, 10)) == 10\n\
                  for i in range(100): assert len(os.read(0, 10)) == 10\n";
    place.write("in.dat", vec![b'x'; 1000]);
    let mut run = place.run(&["--summary=summary"], &["python3", "-c", script]);
    let output = run.stdin(fs::File::open(place.work().join("in.dat")).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let summary = fs::read_to_string(place.work().join("summary")).unwrap();
    let row = |file: &str, calls: &str, why: &str| {
        let row = summary.lines().find(|line| line.contains(file)).unwrap();
        let columns: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(columns[2..4], [calls, calls], "{summary}");
        assert!(row.ends_with(&format!(": {why}")), "{summary}");
    };
    row("jumps.dat", "200", "accessed at random");
    row("mapped.dat", "100", "mapped into memory, or used asynchronously");
    // Also of what came from outside, about which nobody was asked yet.
    row("in.dat", "100", "before it had a buffer");
}

/// A file that is over before the guard has answered: that is the reason, and not that it was used too seldom.
#[test]
fn an_answer_that_comes_too_late_is_the_reason() {
    let place = Place::new();
    let script = "import os, signal, subprocess, time\n\
                  ledger = os.environ['SWEETSPOT_LEDGER']\n\
                  def is_guard(pid):\n\
                  \x20   try:\n\
                  \x20       name = open(f'/proc/{pid}/comm').read()\n\
                  \x20       return name == 'sweetspot-guard\\n' and ledger in open(f'/proc/{pid}/maps').read()\n\
                  \x20   except OSError: return False\n\
                  guards = []\n\
                  while not guards:\n\
                  \x20   guards = [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and is_guard(pid)]\n\
                  subprocess.Popen(['sh', '-c', f'sleep 1; kill -CONT {guards[0]}'])\n\
                  os.kill(guards[0], signal.SIGSTOP)\n\
                  while open(f'/proc/{guards[0]}/stat').read().split()[2] != 'T': time.sleep(0.01)\n\
                  fd = os.open('out.dat', os.O_WRONLY | os.O_CREAT, 0o600)\n\
                  for i in range(300): os.write(fd, b'x' * 10)\n\
                  os.close(fd)\n";
    let output = place.run(&["--summary=summary"], &["python3", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(place.work().join("out.dat")).unwrap(), [b'x'; 3000]);
    let summary = fs::read_to_string(place.work().join("summary")).unwrap();
    let row = summary.lines().find(|line| line.contains("out.dat")).unwrap();
    assert!(row.ends_with("300: closed before the guard answered"), "{summary}");
    assert!(summary.contains("\nnote      nothing was buffered: closed before the"), "{summary}");
}

/// Standard output is the program's, and the summary comes behind what it wrote there.
#[test]
fn a_summary_goes_to_standard_output() {
    let place = Place::new();
    let output = place.run(&["--summary=-"], &["echo", "first"]).output().unwrap();
    assert!(stdout(&output).starts_with("first\nsweetspot summary\n"), "{output:?}");
}
