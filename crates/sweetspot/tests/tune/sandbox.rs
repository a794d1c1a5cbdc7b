//! Tuning in a sandbox: nothing of the user's is changed.

use super::*;

/// Whether there can be a sandbox here; what cannot be tested is said.
fn has_sandbox(place: &Place) -> bool {
    let output = place.tune(&["--sandbox", "--dry-run"], &["true"]).output().unwrap();
    let said = stderr(&output);
    let is_refused = said.contains("a sandbox is not possible here");
    assert!(!is_refused || std::env::var_os("CI").is_none(), "missing in CI: {said}");
    if is_refused {
        eprintln!("skipped: tuning in a sandbox ({said})");
    }
    !is_refused
}

#[test]
fn in_a_sandbox_nothing_is_changed() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    if !has_sandbox(&place) {
        return;
    }
    // Each would be refused in place: it removes its input, counts, and writes elsewhere.
    fs::write(place.path("in"), "some\n").unwrap();
    fs::write(place.path("counter"), "1\n").unwrap();
    let elsewhere = place.folder.path().join("elsewhere");
    let script = format!(
        "sleep 0.05; mv in out; read n < counter; echo $((n + 1)) > counter; echo x > {}",
        elsewhere.display()
    );
    let mut options = EASY.to_vec();
    options.push("--sandbox");
    let output = place.shell(&options, &script);
    is_confirmed(&output);
    let said = stdout(&output);
    assert_has(&said, ["work/out", "work/counter", "elsewhere", "a sandbox of overlays"]);
    assert_eq!(fs::read_to_string(place.path("counter")).unwrap(), "1\n");
    assert!(place.path("in").exists() && !place.path("out").exists() && !elsewhere.exists());
    assert_eq!(fs::read_dir(place.scratch()).unwrap().count(), 0, "and nothing is left");
}

#[test]
fn in_a_sandbox_other_bytes_are_refused_and_inputs_learned() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    if !has_sandbox(&place) {
        return;
    }
    let mut options = EASY.to_vec();
    options.push("--sandbox");
    let writes = "case $IO_BUFFER_SIZE in 16384) echo 16 > out ;; *) echo > out ;; esac";
    place.refused(&options, writes, &["work/out comes out differently with buffer-size 16K"]);
    assert!(!place.path("out").exists());
    place.refused(&options, "exit 3", &["'sh' failed with exit status: 3"]);
    place.refused(&options, "kill -9 $$", &["'sh' failed with signal: 9"]);
    // A name that no word of the command says: only the ledger of the run inside knows it.
    fs::write(place.path("hidden.dat"), "x".repeat(100_000)).unwrap();
    let output =
        place.shell(&["--sandbox", "--dry-run"], "name=hidden; dd bs=100 of=copy if=$name.dat");
    let said = stdout(&output);
    let inputs = said.lines().find(|line| line.starts_with("inputs")).unwrap_or_default();
    assert!(inputs.contains("hidden.dat"), "{said}");
    let outputs = said.lines().find(|line| line.starts_with("outputs")).unwrap_or_default();
    assert!(outputs.contains("work/copy"), "{said}");
}
