//! Automation of the project: `cargo xtask COMMAND`.

mod bench;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["bench", rest @ ..] => bench::main(rest),
        _ => {
            eprintln!("cargo xtask bench: measure what `sweetspot run` does to real programs");
            ExitCode::from(2)
        }
    }
}
