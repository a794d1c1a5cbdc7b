//! `prog < in`: what the program reads is buffered where its description is its own.

use super::*;
use sweetspot_report::numbers::counted;

/// A guard that gets no processor for so long has another chance.
const TRIES_MAX: u32 = 3;

/// The file that is read; so large that the guard has answered long before its end.
fn place() -> Place {
    let place = Place::new();
    place.write("in.dat", (0..20_000_000_u32).map(|at| (at % 251) as u8).collect::<Vec<_>>());
    place
}

/// How many calls on the input were asked for, and how many made, and what the summary says of them.
fn calls(place: &Place) -> (u64, u64, String) {
    let summary = fs::read_to_string(place.work().join("summary")).unwrap();
    let line = summary.lines().find(|line| line.contains("/in.dat")).unwrap_or(&summary);
    let words: Vec<&str> = line.split_whitespace().collect();
    let count = |index: usize| counted(words[index]).unwrap_or_else(|| panic!("{summary}"));
    (count(2), count(3), line.to_owned())
}

fn run_in_bash(place: &Place, script: &str) {
    let run = place.sweetspot(&["run", "--summary=summary", "--"]);
    let words = std::iter::once(run.get_program()).chain(run.get_args());
    let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
    // A session of its own: in the one that the machine began with nobody may look at the first process.
    let mut bash = Command::new("setsid");
    bash.args(["--wait", "bash", "-c", &script.replace("RUN", &words.join(" "))])
        .current_dir(place.work());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => bash.env(name, value),
            None => bash.env_remove(name),
        };
    }
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn input_that_is_the_programs_alone_is_buffered() {
    for script in [
        "exec RUN dd bs=100 of=out.dat < in.dat",
        // Bash opens it in the process that becomes dd.
        "exec RUN bash -c 'dd bs=100 of=out.dat < in.dat; true'",
    ] {
        let place = place();
        let mut said = String::new();
        let is_as_expected = (0..TRIES_MAX).any(|_| {
            run_in_bash(&place, script);
            let content = |name: &str| fs::read(place.work().join(name)).unwrap();
            assert!(content("out.dat") == content("in.dat"), "{script}");
            let (asked, made, line) = calls(&place);
            said = line;
            (asked > 200_000 && made < asked / 2) == test_start::sees_all_processes()
        });
        assert!(is_as_expected, "{script}: {said}");
    }
}

#[test]
fn input_that_others_have_too_is_not_buffered() {
    for script in [
        "{ RUN dd bs=100 of=out.dat; cat; } < in.dat",
        "exec RUN bash -c '{ dd bs=100 of=out.dat; cat; } < in.dat'",
        "exec RUN dd bs=100 of=out.dat < in.dat 3<&0",
    ] {
        let place = place();
        run_in_bash(&place, script);
        let (asked, made, line) = calls(&place);
        assert!(made >= asked, "{script}: {line}");
        assert!(line.contains("another process may have it, too"), "{script}: {line}");
    }
}

/// Who has it outside of a pid namespace is not seen in it.
#[test]
fn input_that_somebody_outside_of_a_pid_namespace_has_is_not_buffered() {
    let place = place();
    // Nobody inside has it but the program, which is in a session of its own.
    let inside =
        "(exec setsid RUN dd bs=100 count=150000 of=first.dat) <&0 & exec < /dev/null; wait";
    let apart = "unshare --pid --fork --mount-proc";
    if !Command::new("sh").args(["-c", &format!("{apart} true")]).status().unwrap().success() {
        return skip_without_root("a pid namespace of its own");
    }
    run_in_bash(&place, &format!("{{ {apart} bash -c \"{inside}\"; cat > rest.dat; }} < in.dat"));
    let (asked, made, line) = calls(&place);
    assert!(made >= asked, "{line}");
    let content = |name: &str| fs::read(place.work().join(name)).unwrap();
    assert!([content("first.dat"), content("rest.dat")].concat() == content("in.dat"), "{line}");
}
