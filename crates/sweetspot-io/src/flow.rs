//! Functions of the caller's that are called again and again, and how they say that it is enough.

use std::ops::ControlFlow;

/// What a function returns that is called for each line, record or batch.
///
/// | a closure returns | it is called | `for_each_line` gives back |
/// |---|---|---|
/// | `()` | to the end | `Result<()>` |
/// | [`ControlFlow<B>`](ControlFlow) | until [`ControlFlow::Break`] | `Result<ControlFlow<B>>` |
/// | `Result<(), E>` | until an error | `Result<Result<(), E>>` |
/// | `Result<ControlFlow<B>, E>` | until either | `Result<Result<ControlFlow<B>, E>>` |
///
/// The outer [`Result`](crate::Result) says whether reading went well. What the closure returned comes
/// back within it as it was, so two question marks pass both kinds of errors on:
///
/// ```
/// use std::num::ParseIntError;
/// use std::ops::ControlFlow;
/// use sweetspot_io::{Input, lines::{self, Lines}};
///
/// /// Adds the numbers up, one in each line.
/// fn sum(input: Input) -> Result<u32, Box<dyn std::error::Error>> {
///     let mut sum = 0;
///     let mut lines = Lines::open(input, &lines::Options::new())?;
///     lines.for_each_line(|line| -> Result<(), ParseIntError> {
///         sum += String::from_utf8_lossy(line).parse::<u32>()?;
///         Ok(())
///     })??;
///     Ok(sum)
/// }
/// assert_eq!(sum(Input::reader("memory", &b"3\n5\n"[..])).unwrap(), 8);
/// assert!(sum(Input::reader("memory", &b"3\nfive\n"[..])).is_err());
/// assert!(sum(Input::path("/no/such/file")).is_err());
///
/// // Stops at the first empty line. The lines after it are still there.
/// let mut lines = Lines::open(Input::reader("memory", &b"a\n\nb\n"[..]), &lines::Options::new())?;
/// let flow = lines.for_each_line(|line| match line {
///     b"" => ControlFlow::Break("found"),
///     _ => ControlFlow::Continue(()),
/// })?;
/// assert_eq!(flow, ControlFlow::Break("found"));
/// assert_eq!(lines.next_line()?, Some(&b"b"[..]));
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// No other type can implement it.
#[diagnostic::on_unimplemented(
    message = "a closure for each line or record cannot return `{Self}`",
    note = "it returns `()`, `ControlFlow<B>`, `Result<(), E>` or `Result<ControlFlow<B>, E>`"
)]
pub trait Flow: sealed::Stops {
    /// A `T` that is there unless the function has stopped: `T`, `ControlFlow<B, T>`, `Result<T, E>`
    /// or `Result<ControlFlow<B, T>, E>`.
    type With<T>;

    /// `with` where it has not stopped.
    #[doc(hidden)]
    fn with<T>(self, with: impl FnOnce() -> T) -> Self::With<T>;
}

/// What a returned value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The function wants to be called again.
    GoesOn,
    /// It has seen enough.
    Stops,
    /// It has failed.
    Fails,
}

pub(crate) mod sealed {
    use super::Course;

    /// The part that callers need not see.
    pub trait Stops: Sized {
        /// What is returned where nobody was called.
        const GOES_ON: Self;

        fn course(&self) -> Course;

        #[inline(always)]
        fn goes_on(&self) -> bool {
            self.course() == Course::GoesOn
        }
    }
}

impl sealed::Stops for () {
    const GOES_ON: () = ();

    #[inline(always)]
    fn course(&self) -> Course {
        Course::GoesOn
    }
}

impl Flow for () {
    type With<T> = T;

    fn with<T>(self, with: impl FnOnce() -> T) -> T {
        with()
    }
}

impl<B> sealed::Stops for ControlFlow<B> {
    const GOES_ON: ControlFlow<B> = ControlFlow::Continue(());

    #[inline]
    fn course(&self) -> Course {
        match self {
            ControlFlow::Continue(()) => Course::GoesOn,
            ControlFlow::Break(_) => Course::Stops,
        }
    }
}

impl<B> Flow for ControlFlow<B> {
    type With<T> = ControlFlow<B, T>;

    fn with<T>(self, with: impl FnOnce() -> T) -> ControlFlow<B, T> {
        match self {
            ControlFlow::Continue(()) => ControlFlow::Continue(with()),
            ControlFlow::Break(value) => ControlFlow::Break(value),
        }
    }
}

impl<E> sealed::Stops for Result<(), E> {
    const GOES_ON: Result<(), E> = Ok(());

    #[inline]
    fn course(&self) -> Course {
        if self.is_ok() { Course::GoesOn } else { Course::Fails }
    }
}

impl<E> Flow for Result<(), E> {
    type With<T> = Result<T, E>;

    fn with<T>(self, with: impl FnOnce() -> T) -> Result<T, E> {
        self.map(|()| with())
    }
}

impl<B, E> sealed::Stops for Result<ControlFlow<B>, E> {
    const GOES_ON: Result<ControlFlow<B>, E> = Ok(ControlFlow::Continue(()));

    #[inline]
    fn course(&self) -> Course {
        match self {
            Ok(flow) => flow.course(),
            Err(_) => Course::Fails,
        }
    }
}

impl<B, E> Flow for Result<ControlFlow<B>, E> {
    type With<T> = Result<ControlFlow<B, T>, E>;

    fn with<T>(self, with: impl FnOnce() -> T) -> Result<ControlFlow<B, T>, E> {
        self.map(|flow| flow.with(with))
    }
}
