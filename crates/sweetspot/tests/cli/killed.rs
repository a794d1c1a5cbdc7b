//! Kills, and what whoever waits for `run` finds then.

use super::*;

/// All of a job are killed at once: the first of them that is known to be dead may not be the one that wrote last.
#[test]
fn what_a_killed_group_wrote_is_there_when_run_returns() {
    let place = Place::new();
    let script =
        "for k in 1 2 3; do sh -c 'while :; do echo a line that waits; done' > out$k & done
        sleep 0.3; kill -9 0";
    let sizes = || {
        let size = |k| fs::metadata(place.work().join(format!("out{k}"))).unwrap().len();
        [1, 2, 3].map(size)
    };
    for options in [&["--wait"][..], &["--summary=said"]] {
        for _ in 0..5 {
            let sized = [options, &["--buffer-size", "64K", "--max-age", "5000"]].concat();
            let output = place.run(&sized, &["setsid", "sh", "-c", script]).output().unwrap();
            let found = sizes();
            assert_eq!(output.status.signal(), Some(9), "{output:?}");
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(sizes(), found, "{options:?}: what came later");
            assert!(found.iter().all(|size| *size > 0));
        }
    }
}
