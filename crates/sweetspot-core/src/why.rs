//! Why calls pass through to the kernel: one list for the engine, the summary and the docs.

/// The list, as an enum with its texts: what `is` one follows the word "is", what `says` one is a
/// sentence of its own.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $kind:ident $text:literal,)+) => {
        /// A reason. The number is a bit position in `FileRecord::why`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Why {
            $($(#[$doc])* $name,)+
        }

        impl Why {
            /// Every reason, in the order of their bits.
            pub const ALL: [Why; Why::Off as usize + 1] = [$(Why::$name,)+];

            /// What the summary says, in the user's words.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Why::$name => $text,)+
                }
            }

            /// Whether the text is a sentence of its own; the others follow the word "is".
            pub const fn is_sentence(self) -> bool {
                match self {
                    $(Why::$name => reasons!(@ $kind),)+
                }
            }
        }
    };
    (@ is) => { false };
    (@ says) => { true };
}

reasons! {
    /// Too few calls to be worth a window.
    TooFewCalls is "too few calls to be worth it",
    /// The file is read or written in pieces as large as the window.
    LargeTransfers is "already read or written in large pieces",
    /// The accesses jump about.
    RandomAccess is "accessed at random",
    /// Its windows served too few calls before something new was learned.
    NotWorthIt is "too few calls were answered from each buffer",
    /// The descriptor was open before the program started, or was opened out of sight.
    FromOutside is "open before the program started, and another process may have it, too",
    /// The descriptor came from outside, and the guard could not copy it.
    NotCopied is "open before the program started, and the system does not allow copying its descriptor",
    /// Not a regular file on a file system where size and offset mean what they say.
    NotRegular is "not a regular file",
    /// Opened with O_DIRECT, O_SYNC, O_DSYNC or O_PATH.
    OpenFlags is "opened for direct or synchronous access",
    /// Mapped into memory, or moved to or from later (`io_submit`, `splice` beside threads).
    Mapped is "mapped into memory, or used asynchronously",
    /// Shared with another process (fork, a passed descriptor).
    Shared is "shared with another process",
    /// The same file is open twice, once for writing.
    OpenTwice is "open twice, once for writing",
    /// Used through stdio.
    Stdio is "used through stdio",
    /// There is no guard, so writes do not wait.
    NoGuard says "no guard, so writes do not wait",
    /// The guard granted no handle on the file.
    HandleRefused says "the guard could not open it",
    /// The guard was to be asked, and has not answered: mostly a file, or a process, that was over too soon.
    NotAnswered is "closed before the guard answered",
    /// The guard found no folder in which to note what is pending.
    NotNoted says "no folder to note what is pending; set XDG_STATE_HOME to one of yours",
    /// The ledger's name is gone, so programs that are started do not find what waits.
    NotFound says "the ledger in /dev/shm was removed (systemd-logind does this at logout, if RemoveIPC=yes)",
    /// The file system is nearly full.
    DiskNearlyFull says "the file system is nearly full",
    /// A limit on the size of files is set.
    FileSizeLimit says "a limit on file size is set",
    /// The memory budget is used up.
    Budget says "memory budget used up",
    /// The process gave up rights, or is confined.
    Confined says "the process gave up rights, or is confined",
    /// The process shares writable memory with another one.
    SharedMemory says "the process shares writable memory with another",
    /// The process uses io_uring.
    IoUring says "the process uses io_uring",
    /// The file was locked, leased, sealed or used asynchronously.
    SpecialUse is "locked, leased or used asynchronously",
    /// The process counts writes (inotify, fanotify, F_NOTIFY).
    Watched says "the process is told of each write (inotify)",
    /// The file system keeps the time of each read (strictatime).
    ReadsNoted says "the file system keeps the time of each read (strictatime)",
    /// A pending write failed earlier.
    WriteFailed says "an earlier write failed",
    /// A read that was to fill a window failed.
    ReadFailed says "a read ahead failed",
    /// A seccomp filter is in force that was not there when `run` started.
    Seccomp says "a seccomp filter is in force that was not there when `run` started",
    /// The C library keeps its streams in a way that is not known, so what stdio does would not be seen.
    StreamsUnknown says "the layout of this C library's streams is unknown",
    /// The C library's data may not be changed (sealed memory).
    StreamsLocked says "the system allows no change to the C library's tables of streams",
    /// A library was loaded whose calls are not seen (RTLD_DEEPBIND, dlmopen, RTLD_NEXT).
    DeepBind says "a library was loaded whose calls are not seen (RTLD_DEEPBIND or RTLD_NEXT)",
    /// Another library behind this one reads or writes in libc's place, or has another function of a name of libc's.
    OtherLibrary says "another library replaces functions of the C library",
    /// The process locks all its memory (mlockall).
    MemoryLocked says "the process locks its memory (mlockall)",
    /// The process ignores SIGSEGV or SIGBUS.
    FaultsIgnored says "the process ignores SIGSEGV or SIGBUS",
    /// The process answers by itself for files that it uses, or for its memory (FUSE, fanotify, a freeze, userfaultfd).
    AnswersItself says "the process may keep its own calls waiting (FUSE, fanotify, userfaultfd, a freeze)",
    /// A descriptor of it was duplicated, replaced or closed while there were several threads and several descriptors.
    Duplicated is "used through several descriptors, in a process of several threads",
    /// A part of the program was made by Go, whose calls are not seen.
    Go says "part of the program is written in Go; its calls cannot be seen",
    /// A part of the program was linked to the C library's own Sun RPC, whose calls are not seen.
    Rpc says "the program uses the C library's own Sun RPC, whose calls are not seen",
    /// A rule, or the size, says off.
    Off says "switched off by a rule or by the buffer size",
}

impl Why {
    /// The reasons whose bits are set.
    pub fn among(bits: u64) -> impl Iterator<Item = Why> {
        Why::ALL.into_iter().filter(move |why| bits & why.bit() != 0)
    }

    /// The first of them.
    pub fn first(bits: u64) -> Option<Why> {
        Why::ALL.get(bits.trailing_zeros() as usize).copied()
    }

    /// The reason with this text.
    pub fn said(text: &str) -> Option<Why> {
        Why::ALL.into_iter().find(|why| why.text() == text)
    }

    /// The bit in `FileRecord::why`.
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Whether it means that the process may open files, and write to them, by calls that are not seen.
    pub const fn opens_unseen(self) -> bool {
        matches!(self, Why::IoUring | Why::Go | Why::DeepBind)
    }

    /// Whether it leaves no way to buffer a file, as opposed to those for which it does not pay, or came too late.
    pub const fn forbids(self) -> bool {
        !matches!(
            self,
            Why::TooFewCalls
                | Why::LargeTransfers
                | Why::RandomAccess
                | Why::NotWorthIt
                | Why::NotAnswered
        )
    }
}
