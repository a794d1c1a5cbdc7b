//! Writes numbered lines: `print_lines COUNT` with `println!` to its standard output (which Rust
//! flushes at every line, also when it is a file), `print_lines COUNT FILE` with one `write_all` a
//! line to a file.

use std::{env, fs::File, io, io::Write, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let count = arguments.first().and_then(|count| count.parse().ok());
    let result = match (count, arguments.get(1)) {
        (Some(count), None) => to_standard_output(count),
        (Some(count), Some(path)) => to_file(count, path),
        (None, _) => Err(io::Error::other("usage: print_lines COUNT [FILE]")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("print_lines: {error}");
            ExitCode::FAILURE
        }
    }
}

fn to_standard_output(count: u64) -> io::Result<()> {
    for number in 0..count {
        println!("line {number:012} of what a program has to say");
    }
    Ok(())
}

fn to_file(count: u64, path: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    for number in 0..count {
        file.write_all(format!("line {number:012} of what a program has to say\n").as_bytes())?;
    }
    Ok(())
}
