use super::*;
use crate::reach::Why;
use sweetspot_report::summary::{BUFFERED_NO, Figures, FileSummary};

#[test]
fn says_what_was_buffered_and_what_was_not() {
    let file = FileSummary {
        path: "/data/in.dat".to_string(),
        buffer: "auto".to_string(),
        requested: 1000,
        made: 4,
        read_bytes: 200_000,
        written_bytes: 0,
        buffered_calls: 936,
        chosen: vec!["64 KiB: a call costs 0.90 us here".to_owned()],
        passed_through_calls: 64,
        reasons: ["too few calls to be worth it", "mapped into memory"].map(str::to_owned).to_vec(),
    };
    let files = vec![file];
    let learned = Summary { processes: Some(2), files, ..Summary::default() };
    let check = |report: Preview, learned: Option<&Summary>, parts: &[&str]| {
        let command = ["./job".into(), "x".into()];
        let ran = Ran {
            program: Path::new("./job"),
            command: &command,
            pid: 42,
            ended: Ended::Exited(3),
            seconds: 1.5,
            learned,
        };
        let record = report.record(&ran, Origin::default());
        let text = record.text(ran.program, ran.pid);
        let again: Record = serde_json::from_str(&record.json()).unwrap();
        assert_eq!(again.json(), record.json());
        assert_eq!(record.inactive.is_some(), text.contains(BUFFERED_NO));
        assert_eq!(record.files.len(), learned.map_or(0, |learned| learned.files.len()));
        assert!(text.starts_with(TITLE));
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
        let figures = Figures::read(&text);
        assert_eq!(figures.inactive.is_some(), text.contains("buffered  no: "));
        let files = learned.is_some_and(|learned| !learned.files.is_empty());
        assert_eq!(figures.calls, files.then_some((1000, 4)), "{text}");
    };
    let reachable = || Preview::new(BufferSize::Bytes(65536), None, Reach::Reachable);
    check(
        reachable(),
        Some(&learned),
        &[
            "./job, pid 42, exit status 3, 1.50 s",
            "size 64K, in 2 processes",
            "/data/in.dat",
            "1,000",
            "chosen    /data/in.dat: 64 KiB: a call costs 0.90 us here\n",
            "64: too few calls to be worth it; mapped into memory",
        ],
    );
    let silent = Summary { processes: Some(0), ..Summary::default() };
    check(reachable(), Some(&silent), &["buffered  no: no process loaded the library"]);
    check(reachable(), Some(&Summary::default()), &["buffered  size 64K\n"]);
    let fixed = Preview::new(BufferSize::Auto, None, Reach::Unreachable(Why::Go));
    check(fixed, None, &["buffered  no: ./job cannot be buffered: it is a Go program"]);
    check(Preview::switched_off(), None, &["buffered  no: SWEETSPOT=off"]);
}
