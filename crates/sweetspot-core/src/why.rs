//! Why calls pass through to the kernel: one list for the engine, the summary and the docs.

/// A reason. The number is a bit position in `FileRecord::why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Why {
    /// Too few calls to be worth a window.
    TooFewCalls,
    /// The file is read or written in pieces as large as the window.
    LargeTransfers,
    /// The accesses jump about.
    RandomAccess,
    /// Its windows served too few calls before something new was learned.
    NotWorthIt,
    /// The descriptor was open before the program started, or was opened out of sight.
    FromOutside,
    /// The descriptor came from outside, and the guard could not copy it.
    NotCopied,
    /// Not a regular file on a file system where size and offset mean what they say.
    NotRegular,
    /// Opened with O_DIRECT, O_SYNC, O_DSYNC or O_PATH.
    OpenFlags,
    /// Mapped into memory.
    Mapped,
    /// Shared with another process (fork, a passed descriptor).
    Shared,
    /// The same file is open twice, once for writing.
    OpenTwice,
    /// Used through stdio.
    Stdio,
    /// There is no guard, so writes do not wait.
    NoGuard,
    /// The guard granted no handle on the file.
    HandleRefused,
    /// The guard was to be asked, and has not answered: mostly a file, or a process, that was over too soon.
    NotAnswered,
    /// The guard found no folder in which to note what is pending.
    NotNoted,
    /// The ledger's name is gone, so programs that are started do not find what waits.
    NotFound,
    /// The file system is nearly full.
    DiskNearlyFull,
    /// A limit on the size of files is set.
    FileSizeLimit,
    /// The memory budget is used up.
    Budget,
    /// The process gave up rights, or is confined.
    Confined,
    /// The process shares writable memory with another one.
    SharedMemory,
    /// The process uses io_uring.
    IoUring,
    /// The file was locked, leased, sealed or used asynchronously.
    SpecialUse,
    /// The process counts writes (inotify, fanotify, F_NOTIFY).
    Watched,
    /// The file system keeps the time of each read (strictatime).
    ReadsNoted,
    /// A pending write failed earlier.
    WriteFailed,
    /// A read that was to fill a window failed.
    ReadFailed,
    /// A seccomp filter is in force that was not there when `run` started.
    Seccomp,
    /// The C library keeps its streams in a way that is not known, so what stdio does would not be seen.
    StreamsUnknown,
    /// The C library's data may not be changed (sealed memory).
    StreamsLocked,
    /// A library was loaded whose calls are not seen (RTLD_DEEPBIND, dlmopen, RTLD_NEXT).
    DeepBind,
    /// Another library behind this one reads or writes in libc's place, or has another function of a name of libc's.
    OtherLibrary,
    /// The process locks all its memory (mlockall).
    MemoryLocked,
    /// The process ignores SIGSEGV or SIGBUS.
    FaultsIgnored,
    /// The process answers by itself for files that it uses, or for its memory (FUSE, fanotify, a freeze, userfaultfd).
    AnswersItself,
    /// A descriptor of it was duplicated, replaced or closed while there were several threads and several descriptors.
    Duplicated,
    /// A part of the program was made by Go, whose calls are not seen.
    Go,
    /// A part of the program was linked to the C library's own Sun RPC, whose calls are not seen.
    Rpc,
    /// A rule, or the size, says off.
    Off,
}

impl Why {
    /// Every reason, in the order of their bits.
    pub const ALL: [Why; Why::Off as usize + 1] = [
        Why::TooFewCalls,
        Why::LargeTransfers,
        Why::RandomAccess,
        Why::NotWorthIt,
        Why::FromOutside,
        Why::NotCopied,
        Why::NotRegular,
        Why::OpenFlags,
        Why::Mapped,
        Why::Shared,
        Why::OpenTwice,
        Why::Stdio,
        Why::NoGuard,
        Why::HandleRefused,
        Why::NotAnswered,
        Why::NotNoted,
        Why::NotFound,
        Why::DiskNearlyFull,
        Why::FileSizeLimit,
        Why::Budget,
        Why::Confined,
        Why::SharedMemory,
        Why::IoUring,
        Why::SpecialUse,
        Why::Watched,
        Why::ReadsNoted,
        Why::WriteFailed,
        Why::ReadFailed,
        Why::Seccomp,
        Why::StreamsUnknown,
        Why::StreamsLocked,
        Why::DeepBind,
        Why::OtherLibrary,
        Why::MemoryLocked,
        Why::FaultsIgnored,
        Why::AnswersItself,
        Why::Duplicated,
        Why::Go,
        Why::Rpc,
        Why::Off,
    ];

    /// The bit in `FileRecord::why`.
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Whether it means that the process may open files, and write to them, by calls that are not seen.
    pub const fn opens_unseen(self) -> bool {
        matches!(self, Why::IoUring | Why::Go | Why::DeepBind)
    }

    /// What the summary says, in the user's words.
    pub const fn text(self) -> &'static str {
        match self {
            Why::TooFewCalls => "too few calls to be worth it",
            Why::LargeTransfers => "already read or written in large pieces",
            Why::RandomAccess => "accessed at random",
            Why::NotWorthIt => "a buffer served too few calls",
            Why::FromOutside => {
                "open before the program started, and another process may have it, too"
            }
            Why::NotCopied => "open before the program started, and the system lets nobody copy it",
            Why::NotRegular => "not a regular file",
            Why::OpenFlags => "opened for direct or synchronous access",
            Why::Mapped => "mapped into memory",
            Why::Shared => "shared with another process",
            Why::OpenTwice => "open twice, once for writing",
            Why::Stdio => "used through stdio",
            Why::NoGuard => "no guard, so writes do not wait",
            Why::HandleRefused => "the guard could not keep a handle of it",
            Why::NotAnswered => "over before the guard had answered",
            Why::NotNoted => {
                "no folder to note what is pending; set XDG_STATE_HOME to one of yours"
            }
            Why::NotFound => {
                "the run's file in /dev/shm was removed (systemd-logind does so at a logout, if RemoveIPC=yes)"
            }
            Why::DiskNearlyFull => "the file system is nearly full",
            Why::FileSizeLimit => "a limit on file size is set",
            Why::Budget => "memory budget used up",
            Why::Confined => "the process gave up rights, or is confined",
            Why::SharedMemory => "the process shares writable memory with another",
            Why::IoUring => "the process uses io_uring",
            Why::SpecialUse => "locked, leased or used asynchronously",
            Why::Watched => "the process is told of each write (inotify)",
            Why::ReadsNoted => "the file system keeps the time of each read (strictatime)",
            Why::WriteFailed => "an earlier write failed",
            Why::ReadFailed => "a read ahead failed",
            Why::Seccomp => "a seccomp filter is in force that was not there when `run` started",
            Why::StreamsUnknown => "the streams of this C library are not of a kind that is known",
            Why::StreamsLocked => {
                "the system allows no change to the C library's tables of streams"
            }
            Why::DeepBind => {
                "a library was loaded whose calls are not seen (RTLD_DEEPBIND or RTLD_NEXT)"
            }
            Why::OtherLibrary => "a library has functions in place of the C library's",
            Why::MemoryLocked => "the process locks its memory (mlockall)",
            Why::FaultsIgnored => "the process ignores SIGSEGV or SIGBUS",
            Why::AnswersItself => {
                "the process may keep its own calls waiting (FUSE, fanotify, userfaultfd, a freeze)"
            }
            Why::Duplicated => "used through several descriptors, in a process of several threads",
            Why::Go => "the program has a part that Go made, whose calls are not seen",
            Why::Rpc => "the program uses the C library's own Sun RPC, whose calls are not seen",
            Why::Off => "a rule or the size switches it off",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_follow_the_list() {
        for (index, why) in Why::ALL.iter().enumerate() {
            assert_eq!(*why as usize, index);
        }
    }
}
