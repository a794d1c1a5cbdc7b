//! Whether the library can reach a program, and why not, in words.

use crate::shown::shown;
use std::fmt;
use std::path::PathBuf;

/// Whether the program's own reads and writes can be buffered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    Reachable,
    Unreachable(Why),
}

impl Reach {
    /// Whether the library is loaded: also into some that it does not reach, because what they
    /// start may be reached.
    pub fn takes_library(&self) -> bool {
        match self {
            Reach::Reachable => true,
            Reach::Unreachable(why) => why.takes_library(),
        }
    }
}

/// Why a program cannot be reached. Where a script was given, it is its interpreter that cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Static,
    Go,
    /// Set-user-id, set-group-id or file capabilities: the dynamic linker loads nothing foreign.
    Privileged,
    OtherMachine,
    /// Its dynamic linker is none of glibc's or musl's.
    UnknownLibrary(PathBuf),
    AddressSanitizer,
    IoUring,
    UnknownFormat,
    CannotBeRead,
    MissingInterpreter(PathBuf),
}

impl Why {
    fn takes_library(&self) -> bool {
        match self {
            Why::Static | Why::Go | Why::IoUring => true,
            Why::Privileged
            | Why::OtherMachine
            | Why::UnknownLibrary(_)
            | Why::AddressSanitizer
            | Why::UnknownFormat
            | Why::CannotBeRead
            | Why::MissingInterpreter(_) => false,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Why::Static => "it is statically linked, so no library can be loaded into it",
            Why::Go => "it is a Go program, which makes its system calls without the C library",
            Why::Privileged => {
                "it is set-uid, set-gid or has file capabilities, and the system loads no library \
                 into such a program"
            }
            Why::OtherMachine => {
                "it is built for another kind of machine (such as 32-bit) than sweetspot"
            }
            Why::AddressSanitizer => {
                "it is built with AddressSanitizer, which must be loaded before any other library"
            }
            Why::IoUring => "it uses io_uring (liburing), whose calls cannot be seen",
            Why::UnknownFormat => "its format is unknown",
            Why::CannotBeRead => "its file cannot be read",
            Why::UnknownLibrary(linker) => {
                return write!(
                    formatter,
                    "its C library is neither glibc nor musl (its dynamic linker is {})",
                    shown(linker)
                );
            }
            Why::MissingInterpreter(interpreter) => {
                return write!(formatter, "its interpreter {} is missing", shown(interpreter));
            }
        })
    }
}
