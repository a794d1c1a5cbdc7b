//! Names of environment variables, each said once: by whom they are set, and by whom read.

/// The size of a buffer. Set by the user, and by `run` for the library.
pub const BUFFER: &str = "IO_BUFFER_SIZE";
/// `off` switches everything off. Set by the user.
pub const SWITCH: &str = "SWEETSPOT";
/// Where the ledger is. Set by `run` for the library.
pub const LEDGER: &str = "SWEETSPOT_LEDGER";
/// How many seccomp filters `run` was under that allow all that the library does; not set where there is none.
/// Set by `run` for the library, which may not be allowed to look into the ledger under another one.
pub const FILTERS: &str = "SWEETSPOT_FILTERS";
/// Asks each process to announce itself in the ledger. Set by `run` for the library.
pub const SUMMARY: &str = "SWEETSPOT_SUMMARY";
/// Asks each process to buffer the calls of C's stdio: `all`, or `rules` where only rules of
/// `sweetspot.toml` ask for it. Set by `run` for the library.
pub const STDIO: &str = "SWEETSPOT_STDIO";
/// Asks the library to try itself and end the process: the path of the ledger once more. Set by the
/// probe for the library.
pub const PROBE: &str = "SWEETSPOT_PROBE";
/// Lets programs be buffered under valgrind, too. Set by those who count the library's own instructions.
pub const VALGRIND: &str = "SWEETSPOT_VALGRIND";
/// Names a file instead of `sweetspot.toml`. Set by the user.
pub const RULES: &str = "SWEETSPOT_RULES";
/// Names the folder for the library's file. Set by the user.
pub const CACHE: &str = "SWEETSPOT_CACHE";
/// Names the report of a launcher. Set by `sweetspot measure` and the like for the launcher alone.
pub const LAUNCHER: &str = "SWEETSPOT_LAUNCHER";
/// On which descriptor a program may report samples. Set for a program that is measured.
pub const SAMPLES: &str = "SWEETSPOT_SAMPLES_FD";
/// What the dynamic linker tells of each object that it loads.
pub const AUDIT: &str = "LD_AUDIT";
/// What the dynamic linker loads before anything else.
pub const PRELOAD: &str = "LD_PRELOAD";
/// Has the dynamic linker list what it would load, and start nothing.
pub const LISTS: &str = "LD_TRACE_LOADED_OBJECTS";
/// Taken away from a command that is to know nothing of a `run` around it, or of what its user has set.
pub const ABOUT_BUFFERING: [&str; 4] = [BUFFER, SWITCH, LEDGER, PRELOAD];
