//! Words as a shell reads them: [`sweetspot_core::shell`].

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use sweetspot_core::shell::Quoted;

/// The word, in quotes where it needs them.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    Quoted(word.as_ref().as_bytes()).to_string()
}

/// A command and its arguments, as a shell would take them.
pub fn words<S: AsRef<OsStr>>(command: &[S]) -> String {
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were() {
        let check = |word: &[u8], expected: &str| {
            assert_eq!(quoted(OsStr::from_bytes(word)), expected);
            let read = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {expected}")])
                .output()
                .unwrap();
            assert_eq!(read.stdout, word, "{expected}");
        };
        check(b"in.dat", "in.dat");
        check(b"", "''");
        check(b"a b", "'a b'");
        check(b"it's", r"'it'\''s'");
        check("größe".as_bytes(), "'größe'");
        check(b"a\nb", r"$'a\nb'");
        check(b"\x1b[2Jit's \\n", r"$'\x1b[2Jit\'s \\n'");
        check(b"\xff1", r"$'\xff1'");
        check("\u{202e}a".as_bytes(), r"$'\xe2\x80\xaea'");
    }
}
