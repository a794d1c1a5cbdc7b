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
