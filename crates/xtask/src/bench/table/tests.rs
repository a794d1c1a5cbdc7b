use super::*;

#[test]
fn the_table_makes_sense() {
    let mut names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), BENCHMARKS.len(), "a name stands for one benchmark");
    for benchmark in BENCHMARKS {
        let (candidate, references) = benchmark.cells.split_last().unwrap();
        assert!(candidate.way == Way::Buffered, "{}: the last is under run", benchmark.name);
        assert!(!references.is_empty(), "{}: nothing to compare with", benchmark.name);
        assert!(benchmark.count[1] <= benchmark.count[0], "{}: quick is less", benchmark.name);
        for need in benchmark.needs {
            assert!(TOOLS.iter().any(|tool| tool.name == *need), "no tool is named {need}");
        }
    }
}

#[test]
fn every_source_is_used() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks");
    let used = |source: &str| {
        let tools = TOOLS.iter().flat_map(|tool| tool.compile).copied();
        let cells = BENCHMARKS.iter().flat_map(|benchmark| benchmark.cells);
        let mut commands = tools.chain(cells.map(|cell| cell.command));
        commands.any(|command| command.contains(&&*format!("{{sources}}/{source}")))
    };
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(used(&name), "nothing uses benchmarks/{name}");
    }
}
