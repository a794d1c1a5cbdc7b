//! Whether what a victim got and left is right, after its call failed.

use crate::fuzz::fail::calls::{Fault, LIBRARYS};
use crate::fuzz::fail::{Disturbed, Ended, FILES, Failure, Native, READ_KINDS, kind_name};

/// No crash, everything that was read was right, and the files hold what the calls reported.
pub(super) fn judge_bytes(ended: &Ended, files: &[Vec<u8>]) -> Result<(), String> {
    if ended.status != 0 {
        return Err(format!("it ended with the wait status {:#x}: {}", ended.status, ended.stderr));
    }
    if ended.page.get(3) != Some(&1) {
        return Err("it ended early".to_owned());
    }
    if ended.page[2] != 0 {
        let (call, line) = (ended.page[2] >> 32, ended.page[2] & 0xffff_ffff);
        return Err(format!("in call {call} line {line} of fail_victim.c does not hold"));
    }
    let is_flush = |disturbed: Disturbed| disturbed.call == libc::SYS_pwrite64;
    if ended.page[5] != 0 && !ended.disturbed.is_some_and(is_flush) {
        return Err("a size did not show what was written".to_owned());
    }
    if !ended.stderr.is_empty() {
        return Err(format!("on stderr: {}", ended.stderr));
    }
    for ((name, model), file) in FILES.iter().zip(&ended.models).zip(files) {
        if model != file {
            let at = model.iter().zip(file).take_while(|(a, b)| a == b).count();
            let (len, expected) = (file.len(), model.len());
            return Err(format!("file {name}: {len} bytes, expected {expected}; equal up to {at}"));
        }
    }
    Ok(())
}

/// No crash, and each file holds what the calls reported, or it was said that it does not.
pub(super) fn judge_full(ended: &Ended, files: &[Vec<u8>]) -> Result<(), String> {
    let failed = ended.failures();
    let mut told = ended.clone();
    // Told at the last moment, by a status of its own (EX_IOERR).
    let told_at_end = libc::WIFEXITED(ended.status) && libc::WEXITSTATUS(ended.status) == 74;
    if told_at_end && !ended.stderr.is_empty() {
        told.status = 0;
    }
    for ((name, model), file) in FILES.iter().zip(&mut told.models).zip(files) {
        let is_named = ended.stderr.contains(&format!("/{name}: "));
        if model != file && is_named && (told_at_end || !failed.is_empty()) {
            model.clone_from(file);
        }
    }
    told.stderr.clear();
    if !failed.is_empty() {
        // Nor do maps, sizes and transfers inside the kernel show what could not be written.
        told.page[2] = 0;
        told.page[5] = 0;
    }
    judge_bytes(&told, files)
}

/// It ran as ever, or did not run and that was said, or ended as it ends natively.
pub(super) fn judge_start(ended: &Ended, files: &[Vec<u8>], is_native: bool) -> Result<(), String> {
    let said = &ended.stderr;
    if said.contains("fatal runtime error: initialization") {
        // Rust's runtime, before any line of ours: it says so, and nothing was started.
        return Ok(());
    }
    if said.contains("panicked") {
        return Err(format!("a panic: {said}"));
    }
    if ended.page.get(3) == Some(&1) {
        // The dynamic linker or `run` may say why nothing is buffered.
        return judge_bytes(&Ended { stderr: String::new(), ..ended.clone() }, files);
    }
    let refused = libc::WIFEXITED(ended.status) && ended.status != 0 && !said.is_empty();
    if refused || is_native {
        return Ok(());
    }
    Err(format!("it ended with the wait status {:#x}, and said: {said}", ended.status))
}

/// The program saw what it sees natively.
pub(super) fn judge_error(
    fault: Fault,
    disturbed: Disturbed,
    failures: &[Failure],
    native: &Native,
) -> Result<(), String> {
    let Disturbed { call, kind } = disturbed;
    let said = || {
        let list = failures.iter().map(|(kind, errno)| {
            format!("{}: {}", kind_name(*kind), std::io::Error::from_raw_os_error(*errno))
        });
        list.collect::<Vec<_>>().join(", ")
    };
    let has_this_error = failures.iter().all(|(_, errno)| fault == Fault::Error(*errno));
    if call == libc::SYS_pwrite64 && has_this_error {
        // A flush: told at the same call, or a later one of that file.
        return Ok(());
    }
    if call == libc::SYS_pread64 && READ_KINDS.contains(&kind_name(kind)) && has_this_error {
        // A window is filled: the read that needs it fails as it does natively.
        return Ok(());
    }
    match native.get(&(fault, kind, call)) {
        Some(outcomes) if outcomes.contains(failures) => Ok(()),
        None if failures.is_empty() => Ok(()),
        Some(_) if failures.is_empty() && LIBRARYS.contains(&call) => Ok(()),
        None => Err(format!("the program saw an error of the library's own call: {}", said())),
        Some(outcomes) => Err(format!("the program saw [{}], natively {outcomes:?}", said())),
    }
}
