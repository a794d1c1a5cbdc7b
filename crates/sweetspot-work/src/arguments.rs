//! What can be typed after `sweetspot work`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use sweetspot_core::size::{self, Parsed};
use sweetspot_io::lines::{Encoding, Ends, Invalid, LINE_BYTES_MAX};
use sweetspot_io::{BufferSize, Existing, Hint, ReadOptions, Strategy};
use sweetspot_report::failure::Failure;

const HELP: &str = "\
{about}

{before-help}{usage-heading} {usage}

Commands:
{subcommands}

Options:
{options}

`sweetspot work COMMAND --help` says more about a command.
";

const EXAMPLES: &str = "\
Examples:
  sweetspot work lines access.log                     how many lines, by LF, CR or CRLF
  sweetspot work copy big.dat copy.dat                appears under its name when it is complete
  sweetspot work compare big.dat copy.dat             exit status 0 equal, 1 different, 2 trouble
  sweetspot work generate --preset small --scale 0.1 data
  sweetspot work transform --work 100 --threads 2 data encrypted
  sweetspot work records --record-bytes 200 --json accounts.dat";

/// Count lines; read, copy, compare, transform or generate files
#[derive(Args)]
#[command(help_template = HELP, before_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Work {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Generate(Generate),
    Copy(Copy),
    Compare(Compare),
    Transform(Transform),
    Lines(Lines),
    Records(Records),
}

fn strategies() -> PossibleValuesParser {
    Strategy::ALL.iter().map(|strategy| strategy.name()).into()
}

/// How to read.
#[derive(Args)]
pub struct Read {
    /// How to read. Default: whatever is best
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    strategy: Option<String>,

    /// The buffer size: 64K, 1M. 0 or auto: 128K; 512K for mapped, 1M for direct. off: as small as
    /// possible
    #[arg(long, value_name = "N", default_value = "auto", allow_hyphen_values = true)]
    buffer_size: OsString,

    /// What to tell the system about the file
    #[arg(long, value_name = "HINT", default_value = "none", value_parser = ["none", "sequential", "will-need"])]
    hint: String,

    /// Print one JSON object: bytes, seconds, a hash of the result
    #[arg(long)]
    pub json: bool,
}

impl Read {
    pub fn options(&self) -> Result<ReadOptions, Failure> {
        let hint = match &*self.hint {
            "sequential" => Hint::Sequential,
            "will-need" => Hint::WillNeed,
            _ => Hint::None,
        };
        let buffer_size = size("--buffer-size", &self.buffer_size)?;
        let strategy = self.strategy.as_deref().and_then(Strategy::named);
        Ok(ReadOptions::new().strategy(strategy).buffer_size(buffer_size).hint(hint))
    }
}

/// Reads a size. What is none is an error here: nobody else's script depends on it.
pub fn size(option: &str, text: &OsString) -> Result<BufferSize, Failure> {
    let wrong = |why| {
        let what = format!("{option} {}: {why}", text.to_string_lossy());
        Failure::own(what).status(2).next(format!("try: {option} 64K"))
    };
    match size::parse(text.as_encoded_bytes()) {
        Parsed::Size(size::BufferSize::Off) => Ok(BufferSize::Off),
        Parsed::Size(size::BufferSize::Auto) => Ok(BufferSize::Auto),
        Parsed::Size(size::BufferSize::Bytes(bytes)) => Ok(BufferSize::Bytes(bytes)),
        Parsed::NotANumber => Err(wrong("that is no size")),
        Parsed::TooLarge => Err(wrong("at most 1G")),
    }
}

/// Whether a file may be replaced.
#[derive(Args)]
pub struct Force {
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
}

impl Force {
    pub fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Refuse }
    }
}

/// Generate files of lines, records or bytes from a seed
#[derive(Args)]
pub struct Generate {
    /// A data set of the streaming-or-buffering experiment
    #[arg(long, value_name = "NAME", value_parser = ["small", "medium-short", "medium-long", "big"])]
    pub preset: Option<String>,

    /// The share of the preset's files to generate
    #[arg(long, value_name = "PART", default_value_t = 1.0)]
    pub scale: f64,

    /// How many files
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "preset")]
    pub files: u64,

    /// Lines in each file
    #[arg(long, value_name = "N", default_value_t = 1000, conflicts_with = "preset")]
    pub lines: u64,

    /// Characters in each line
    #[arg(long, value_name = "N", default_value_t = 80, conflicts_with = "preset")]
    pub characters: u64,

    /// Records in each file, instead of lines
    #[arg(long, value_name = "N", conflicts_with = "preset")]
    pub records: Option<u64>,

    /// Bytes in each record
    #[arg(long, value_name = "N", default_value_t = 200, requires = "records")]
    pub record_bytes: u64,

    /// Bytes in each file, instead of lines: random bytes
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["preset", "records"])]
    pub binary: Option<u64>,

    /// Seed for all bytes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    pub force: Force,

    /// Print one JSON object: bytes, seconds, a hash of the result
    #[arg(long)]
    pub json: bool,

    /// The folder for the files
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// Copy a file, in the kernel if possible; holes stay holes
#[derive(Args)]
pub struct Copy {
    #[command(flatten)]
    pub read: Read,

    #[command(flatten)]
    pub force: Force,

    /// The file to copy; -: standard input
    #[arg(value_name = "FROM")]
    pub from: PathBuf,

    /// The copy, or a folder for it; -: standard output
    #[arg(value_name = "TO")]
    pub to: PathBuf,
}

/// Say where two files first differ
#[derive(Args)]
pub struct Compare {
    #[command(flatten)]
    pub read: Read,

    /// Print nothing, and read no content if lengths differ
    #[arg(short, long)]
    pub silent: bool,

    /// One file; -: standard input
    #[arg(value_name = "ONE")]
    pub one: PathBuf,

    /// The other
    #[arg(value_name = "OTHER")]
    pub other: PathBuf,
}

/// XOR each line of a file, or of all files of a folder, in passes
#[derive(Args)]
pub struct Transform {
    #[command(flatten)]
    pub read: Read,

    /// The write buffer; sizes as for --buffer-size
    #[arg(long, value_name = "N", default_value = "auto", allow_hyphen_values = true)]
    pub write_buffer: OsString,

    /// How many passes over each line
    #[arg(long, value_name = "PASSES", default_value_t = 1)]
    pub work: u32,

    /// How many threads; 0: as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,

    /// What the threads share: the files of a folder, or the lines of each file
    #[arg(long, value_name = "WHAT", default_value = "files", value_parser = ["files", "lines"])]
    share: String,

    #[command(flatten)]
    pub force: Force,

    /// A file or a folder
    #[arg(value_name = "FROM")]
    pub from: PathBuf,

    /// What it becomes: a file, or a folder
    #[arg(value_name = "TO")]
    pub to: PathBuf,
}

impl Transform {
    pub fn shares_lines(&self) -> bool {
        self.share == "lines"
    }
}

/// Count lines, or read them in one of several ways
#[derive(Args)]
pub struct Lines {
    #[command(flatten)]
    pub read: Read,

    /// Instead of counting, read every line this way (slowest first)
    #[arg(long, value_name = "WAY", value_parser = ["byte", "2k", "8k", "string", "lines", "latin1"])]
    pub reader: Option<String>,

    /// Instead of counting, decode every line
    #[arg(long, value_name = "NAME", value_parser = ["latin1", "utf8", "utf8-replace"], conflicts_with = "reader")]
    encoding: Option<String>,

    /// What ends a line: LF, CR and CRLF (any), or LF alone (lf)
    #[arg(long, value_name = "ENDS", default_value = "any", value_parser = ["any", "lf"])]
    ends: String,

    /// The longest line allowed, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = LINE_BYTES_MAX)]
    pub line_bytes_max: usize,

    /// How many threads; 0: as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["reader", "encoding"])]
    pub threads: usize,

    /// The files; none, or -: standard input
    #[arg(value_name = "FILES")]
    pub files: Vec<PathBuf>,
}

impl Lines {
    pub fn ends(&self) -> Ends {
        if self.ends == "lf" { Ends::Lf } else { Ends::Any }
    }

    pub fn encoding(&self) -> Option<Encoding> {
        Some(match self.encoding.as_deref()? {
            "latin1" => Encoding::Latin1,
            "utf8-replace" => Encoding::Utf8(Invalid::Replace),
            _ => Encoding::Utf8(Invalid::Error),
        })
    }
}

/// Read, copy or rewrite fixed-length records
#[derive(Args)]
pub struct Records {
    #[command(flatten)]
    pub read: Read,

    /// The length of a record
    #[arg(long, value_name = "BYTES")]
    pub record_bytes: usize,

    /// Copy them to this file, one by one
    #[arg(long, value_name = "TO", conflicts_with_all = ["rewrite", "random"])]
    pub to: Option<PathBuf>,

    /// Write each record back in place, unchanged
    #[arg(long, conflicts_with = "random")]
    pub rewrite: bool,

    /// Read N records at random
    #[arg(long, value_name = "N")]
    pub random: Option<u64>,

    /// Seed for the record numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    pub force: Force,

    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
