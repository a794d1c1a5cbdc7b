//! The numbers that decide when a buffer is earned and how large it is, each with what it rests on.
//! Not here: numbers of one mechanism, which stand beside their use (`cost`, `threshold`, and the
//! limits of retries, waits and pools in the engine).
//!
//! Costs meant below were measured on a 2-core AMD EPYC virtual machine (Linux 6.18, ext4): a read
//! or write call of 8 to 200 bytes 440 ns, fstat 410 ns, a window hit 4 to 10 ns, copying 64 KiB out
//! of the page cache 6 us.

/// Milliseconds that a byte may wait or a window may be old, unless `--max-age` says otherwise.
/// One second is what an operator who looks at a file would not notice.
pub const MAX_AGE_MS: u32 = 1000;

/// The same in a pid namespace of its own: a container that is killed takes the guard along, and with
/// it what waits. Ten flushes a second of some 20 us each are not worth losing a second for.
pub const MAX_AGE_NAMESPACE_MS: u32 = 100;

/// Hits between two looks at the clock: 5 ns each, spread over 64 hits of 5 ns, is 2 %.
pub const HITS_PER_CLOCK: i32 = 64;

/// The first window, in bytes: one page, what the kernel copies at least anyway.
pub const WINDOW_BYTES_MIN: u64 = 4096;

/// The largest window of `auto`, and the most that waits for one file, in bytes, unless calls are dear:
/// more would not fit into the second caches of smaller processors, together with what the program
/// needs. Within it `auto` takes what pays, by what calls cost (`crate::cost`).
pub const AUTO_BYTES_USUAL: u64 = 256 << 10;
/// As much as the kernel reads ahead of a program that reads in order, while that works: `read_ahead_kb` as Linux sets
/// it. A window that is no larger finds its bytes there; for a larger one the program waits, where a device is slow.
pub const READ_AHEAD_BYTES: u64 = 128 << 10;
/// Fills of that size from which it is seen whether the kernel reads ahead: the first one finds nothing there.
pub const READ_AHEAD_FILLS: u32 = 2;
/// Larger fills from which it is seen whether they are slower: not all of them were held up.
pub const LARGER_FILLS: u32 = 3;

/// The same where a call takes [`DEAR_CALL_NS`] and more: a share that takes a millisecond to answer
/// moves that much in four.
pub const AUTO_BYTES_MAX: u64 = 4 << 20;

/// From here on a call costs more than a second cache saves, in nanoseconds. On xfs in memory calls take 10
/// to 14 us (2-core Intel Xeon virtual machine). There a buffer of 1 MiB instead of 256 KiB saves a program
/// of 100 ms 3 %, and `auto` with such buffers took 8 % longer in one of 5 ms: until the guard has reserved
/// them, writes pass through.
pub const DEAR_CALL_NS: u32 = 20_000;

/// What it takes to get a larger write buffer, in nanoseconds: until the guard has answered, half a
/// millisecond to a whole one later, each write passes through.
pub const ENLARGING_NS: u64 = 1_000_000;

/// What pays is never found to be less than this for a window, in bytes: it costs nothing to have, and
/// what a call takes of the processor besides its own time is not measured.
pub const AUTO_WINDOW_BYTES_LEAST: u64 = 16 << 10;

/// Reads of the present length that a window of `auto` holds at least, as it must serve
/// [`HITS_WORTH`].
pub const READS_HELD: u64 = 4;

/// Small sequential reads that a file needs before it gets a window (`threshold`): as many as a window usually
/// costs, so that no file takes more than twice as long for it. Fewer where calls are dear, more where files end early.
pub const READS_TO_EARN: u32 = 16;

/// What a window costs before it answers its first read, in reads: to be opened (fstat, fstatfs, F_GETFL, lseek,
/// signal masks), filled and given back. 5 us on tmpfs, where a read of 512 bytes takes 330 ns.
pub const WINDOW_CALLS: u32 = 16;

/// What is left at least of a file from outside when the guard is asked whether it is the process' alone, in
/// bytes. It looks at every descriptor that it may see: some milliseconds of its own, beside the program.
pub const ALONE_BYTES_MIN: u64 = 32 << 10;

/// What a jump takes from the score of a file that has no window: runs of fewer than three reads
/// between jumps never add up.
pub const JUMP_PENALTY: u32 = 3;

/// Transfers at least that large earn no buffer, in bytes: the kernel copies them for a nanosecond in ten
/// bytes, and what a call costs besides is lost in that.
pub const SMALL_BYTES_MAX: u64 = 64 << 10;

/// The summary lists a file without a buffer once so many of its calls have passed through.
pub const CALLS_LISTED: u32 = 64;

/// After so many windows in a row that serve fewer than [`HITS_WORTH`] calls, reads of a file pass
/// through.
pub const POOR_WINDOWS_MAX: u32 = 8;

/// Calls that a window must serve to be worth its filling.
pub const HITS_WORTH: u64 = 3;

/// Each time a window did not pay the next one must be earned with twice as many reads, up to
/// `READS_TO_EARN << BACKOFF_MAX`.
pub const BACKOFF_MAX: u32 = 6;

/// A window of `auto` must serve [`HITS_WORTH`] calls for each so many bytes of it: larger reads are
/// cheaper from the kernel than copied twice. Where a size was asked for, calls may be dear
/// for a reason of their own (a file system that asks a server), and a window only has to serve as many
/// in all.
pub const AUTO_DENSE_BYTES: u64 = 64 << 10;

/// Bytes near the last access that still count as sequential.
pub const NEAR_BYTES: u64 = 4096;

/// Memory for windows and pending bytes in one process, in bytes.
pub const BUDGET_BYTES: u64 = 64 << 20;

/// A window of `auto` larger than a page takes at most this part of what is left of the budget: many
/// files at once have smaller windows each, rather than the last ones none. 128 have the largest, some
/// 900 have one at all.
pub const AUTO_WINDOW_SHARE: u64 = 128;

/// The same for windows and pending bytes beyond [`AUTO_BYTES_USUAL`], which only dear calls are worth:
/// one file has [`AUTO_BYTES_MAX`], the next ones half of that.
pub const AUTO_DEAR_SHARE: u64 = 16;

/// Windows of the size in force that are within the budget, however large they are.
pub const BUDGET_WINDOWS: u64 = 8;

/// With a limit on addresses (`ulimit -v`) or data (`ulimit -d`) the budget is this part of it at most,
/// and below [`ADDRESS_BYTES_MIN`] there is no ledger (it takes 2.5 MB), and a program is not started
/// with the library: the program's own need comes first.
pub const BUDGET_ADDRESSES: u64 = 16;
/// See [`BUDGET_ADDRESSES`].
pub const ADDRESS_BYTES_MIN: u64 = 256 << 20;

/// Small writes after which a file asks the guard for a handle (`threshold`); files that end earlier pay nothing.
pub const WRITES_TO_EARN: u32 = 64;

/// What a handle costs before the first write waits by it, in writes: it is asked for, mapped and given back, what
/// waited is flushed, and until the guard has answered some 60 writes pass through. Files of 130 writes took a
/// quarter longer with one, files of 200 a twentieth less (2-core AMD EPYC virtual machine, tmpfs).
pub const WRITE_BUFFER_CALLS: u32 = 100;

/// What a small call takes, in nanoseconds, where no transfer was timed: waits for the guard are compared with it.
pub const CALL_NS: u32 = 500;

/// Small writes after which a file with a handle begins to let its writes wait again.
pub const WRITES_TO_EARN_AGAIN: u32 = 8;

/// Pending bytes after which the first flush happens, with `auto`; doubled by each flush that was
/// full, up to what pays.
pub const APPEND_BYTES_FIRST: u64 = 64 << 10;

/// Writes that a flush must carry to be worth it, if it was full, or if it took [`WAIT_NS`].
pub const WRITES_WORTH: u64 = 3;

/// The same of one for which the program did something that others may see, before the buffer was full. What
/// comes with each of these (five questions about files, two positions, signals blocked four times) takes as
/// long as five writes: `tar` with small blocks, of small files, took a third longer.
pub const WRITES_WORTH_EARLY: u64 = 8;

/// From here on a small call has waited for something, and buffering will wait for it too, in nanoseconds.
pub const WAIT_NS: u64 = 20_000;

/// After so many flushes in a row that carried fewer, the file's writes pass through.
pub const POOR_FLUSHES_MAX: u32 = 8;

/// Writes wait only where a file system has so much free space, in bytes, and
/// [`SPACE_BUFFERS`]: of a smaller one each byte that fits must be told from the first that does not.
pub const SPACE_BYTES_MIN: u64 = 64 << 20;
/// See [`SPACE_BYTES_MIN`]: so many buffers of the size in force.
pub const SPACE_BUFFERS: u64 = 100;
/// Free space is asked for again after so many bytes of all files of a process: a quarter of what must
/// be free.
pub const SPACE_CHECK_BYTES: u64 = SPACE_BYTES_MIN / 4;
/// Free space is asked for again after so many milliseconds.
pub const SPACE_CHECK_MS: u64 = 250;
/// Nobody fills so many bytes in that time: where less is free, it is asked for after whatever may be news.
pub const SPACE_BYTES_AMPLE: u64 = 1 << 30;
/// Free space is asked for at the grant and every so many flushes (an fstatfs costs 440 ns).
pub const FLUSHES_PER_SPACE_CHECK: u32 = 64;
