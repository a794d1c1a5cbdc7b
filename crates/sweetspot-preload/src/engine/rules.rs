//! Rules: what the user has said of some files, and sizes for kinds of files.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::glob;
use sweetspot_core::ledger::{
    BUFFER_AUTO, BUFFER_OFF, BUFFER_UNSET, RULE_AUTO, RULE_STDIO, RULE_UNOBSERVED, RULES_MAX, Rule,
    TEXT_BYTES_MAX,
};

use super::ledger::ledger;
use super::process;
use crate::floor::proc::{self, PathBuffer};
use crate::floor::{environment, shared};

/// Whether rules may be in force, which can switch on what the size switches off.
pub fn has_rules() -> bool {
    shared::is_given() && ledger().is_some_and(|ledger| ledger.header.rules.load(Relaxed) > 0)
}

/// The size in force for the file of a descriptor, as `Header::buffer`: that of the first rule that
/// matches, else that of the process; and where that is `auto`, what `auto` means there.
pub fn buffer_for(fd: i32) -> u32 {
    let buffer = match rule_for(fd).map(|rule| rule.buffer.load(Relaxed)) {
        None | Some(BUFFER_UNSET) => process::buffer(),
        Some(buffer) => buffer,
    };
    if buffer == BUFFER_AUTO { auto_for(fd) } else { buffer }
}

/// What `auto` means for the file of a descriptor, as [`buffer_for`].
pub fn auto_for(fd: i32) -> u32 {
    first_rule(fd, is_for_auto).map_or(BUFFER_AUTO, |rule| rule.buffer.load(Relaxed))
}

fn is_for_auto(rule: &Rule) -> bool {
    rule.flags.load(Relaxed) & RULE_AUTO != 0
}

/// Whether nobody looks at the file of a descriptor before it is closed, by its rule.
pub fn is_unobserved(fd: i32) -> bool {
    rule_for(fd).is_some_and(|rule| rule.flags.load(Relaxed) & RULE_UNOBSERVED != 0)
}

/// Whether any rule says so of any file.
pub fn has_unobserved_files() -> bool {
    has_rules()
        && ledger().is_some_and(|ledger| {
            ledger.rules.iter().any(|rule| rule.flags.load(Relaxed) & RULE_UNOBSERVED != 0)
        })
}

/// Whether the calls that stdio makes on a descriptor are buffered like any others, by its rule.
pub fn buffers_stdio(fd: i32) -> bool {
    rule_for(fd).is_some_and(|rule| rule.flags.load(Relaxed) & RULE_STDIO != 0)
}

/// The first rule that matches the file of a descriptor.
fn rule_for(fd: i32) -> Option<&'static Rule> {
    first_rule(fd, |rule| !is_for_auto(rule))
}

/// The same among those of one kind.
fn first_rule(fd: i32, is_meant: impl Fn(&Rule) -> bool) -> Option<&'static Rule> {
    let ledger = ledger()?;
    let rules = (ledger.header.rules.load(Relaxed) as usize).min(RULES_MAX);
    if rules == 0 {
        return None;
    }
    let mut path: PathBuffer = [0; size_of::<PathBuffer>()];
    let path = proc::path_of(fd, &mut path);
    let (mut program, mut file) = ([0; TEXT_BYTES_MAX], [0; TEXT_BYTES_MAX]);
    ledger.rules[..rules].iter().filter(|rule| is_meant(rule)).find(|rule| {
        let (program, file) = (rule.program.load(&mut program), rule.file.load(&mut file));
        let wanted_program =
            program.is_empty() || glob::matches(program, environment::program_name());
        wanted_program && (file.is_empty() || may_match(rule, file, path))
    })
}

/// Whether a rule is for a file, which may have lost its name, with this path as the kernel says it. If that is not known,
/// or was cut off, each rule is that switches buffering off.
fn may_match(rule: &Rule, pattern: &[u8], path: &[u8]) -> bool {
    if path.is_empty() || path.len() == size_of::<PathBuffer>() {
        return rule.buffer.load(Relaxed) == BUFFER_OFF && !is_for_auto(rule);
    }
    let had = path.strip_suffix(b" (deleted)");
    [Some(path), had].into_iter().flatten().any(|path| matches_path(pattern, path))
}

/// A pattern without a slash is meant for the file's name, one with a slash for its whole path.
fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    if pattern.contains(&b'/') {
        return glob::matches(pattern, path);
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    glob::matches(pattern, name)
}
