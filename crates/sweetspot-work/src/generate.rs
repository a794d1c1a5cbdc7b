//! `work generate`: makes data sets from a seed. The same seed gives the same bytes, on any machine
//! and in any version.

use crate::explain::{STATUS_FAILED, cannot, explain, explain_wrapped, system};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::{self, Write};
use std::path::Path;
use sweetspot_io::{ErrorKind, Existing, Writer};
use sweetspot_report::failure::Failure;

/// What is always left free on the disk, in bytes: a system with a full disk is hard to use.
pub const SPARE_BYTES: u64 = 1 << 30;

/// The longest line or record, in bytes.
pub const UNIT_BYTES_MAX: u64 = 1 << 30;

/// How much is made at a time, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Lines of printable ASCII, each ended by LF.
    Lines {
        /// How many in each file.
        lines: u64,
        /// Characters in each, without the end.
        characters: u64,
    },
    /// Records of printable ASCII without any end between.
    Records {
        /// How many in each file.
        records: u64,
        /// Bytes in each.
        record_bytes: u64,
    },
    /// Any bytes.
    Binary {
        /// How many in each file.
        bytes: u64,
    },
}

impl Content {
    fn file_bytes(self) -> Option<u64> {
        match self {
            Content::Lines { lines, characters } => lines.checked_mul(characters.checked_add(1)?),
            Content::Records { records, record_bytes } => records.checked_mul(record_bytes),
            Content::Binary { bytes } => Some(bytes),
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Content::Lines { .. } => "txt",
            Content::Records { .. } => "rec",
            Content::Binary { .. } => "bin",
        }
    }
}

/// The data sets of the streaming-or-buffering experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 10,000 files of 100 lines of 100 characters.
    Small,
    /// 100 files of 500,000 lines of 20 characters.
    MediumShort,
    /// 100 files of 100 lines of 100,000 characters.
    MediumLong,
    /// 20 files of 100,000 lines of 1,000 characters.
    Big,
}

impl Preset {
    /// The preset of a name that `--preset` takes.
    pub fn named(name: &str) -> Option<Preset> {
        Some(match name {
            "small" => Preset::Small,
            "medium-short" => Preset::MediumShort,
            "medium-long" => Preset::MediumLong,
            "big" => Preset::Big,
            _ => return None,
        })
    }

    /// Its options. A `scale` of 0.1 makes a tenth of the files, at least one.
    pub fn options(self, scale: f64) -> Options<'static> {
        let (files, lines, characters) = match self {
            Preset::Small => (10_000, 100, 100),
            Preset::MediumShort => (100, 500_000, 20),
            Preset::MediumLong => (100, 100, 100_000),
            Preset::Big => (20, 100_000, 1_000),
        };
        let files = ((f64::from(files) * scale).round() as u64).max(1);
        Options { files, ..Options::new(Content::Lines { lines, characters }) }
    }
}

/// What to make.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// What each file holds; no two are alike.
    pub content: Content,
    /// How many files, at most a million: `000000.txt` and so on.
    pub files: u64,
    /// The bytes follow from it.
    pub seed: u64,
    /// What happens where a file is there already.
    pub existing: Existing,
    /// Is told now and then how many bytes are done.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl Options<'_> {
    /// One file, from seed 0.
    pub fn new(content: Content) -> Self {
        Options { content, files: 1, seed: 0, existing: Existing::default(), progress: None }
    }

    /// How many bytes there will be, if a number can hold it.
    pub fn bytes(&self) -> Option<u64> {
        self.content.file_bytes()?.checked_mul(self.files)
    }
}

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Files.
    pub files: u64,
    /// Bytes in all of them.
    pub bytes: u64,
}

/// Makes the files in `folder`, which is made where it is missing.
///
/// # Errors
/// Where writing fails, a file is there already, or less than [`SPARE_BYTES`] would be left free; then
/// nothing is made.
pub fn generate(folder: &Path, options: &Options<'_>) -> Result<Made, Failure> {
    const FILES_MAX: u64 = 1_000_000;
    let name = folder.display().to_string();
    let unit_bytes = match options.content {
        Content::Lines { characters, .. } => characters,
        Content::Records { record_bytes, .. } => record_bytes,
        Content::Binary { .. } => 0,
    };
    let bytes = options.bytes().filter(|_| options.files <= FILES_MAX);
    let Some(bytes) = bytes.filter(|_| unit_bytes <= UNIT_BYTES_MAX) else {
        let what = "at most a million files, and 1 GiB in a line or record, can be made";
        return Err(cannot("generate in", &name, &ErrorKind::Option(what)));
    };
    std::fs::create_dir_all(folder).map_err(system("create", &name))?;
    check_room(folder, &name, bytes)?;
    let mut made = Made::default();
    for number in 0..options.files {
        let path = folder.join(format!("{number:06}.{}", options.content.extension()));
        let mut writer = Writer::create(&path, options.existing).map_err(explain)?;
        fill(&mut writer, number, made.bytes, options).map_err(explain_wrapped)?;
        made.bytes += writer.finish().map_err(explain)?;
        made.files += 1;
    }
    Ok(made)
}

fn check_room(folder: &Path, name: &str, needed_bytes: u64) -> Result<(), Failure> {
    let room = rustix::fs::statvfs(folder).map_err(io::Error::from);
    let room = room.map_err(system("look at", name))?;
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize).saturating_sub(SPARE_BYTES);
    if needed_bytes > free_bytes {
        let what = format!("{needed_bytes} bytes are needed, {free_bytes} may be used");
        let failure = Failure::own(format!("cannot generate in {name}: {what}"));
        let next = "make less, or in another place; see: df -h .";
        return Err(failure.status(STATUS_FAILED).next(next));
    }
    Ok(())
}

/// Writes one file. Its bytes depend on the seed and its number only.
fn fill(writer: &mut Writer, number: u64, before: u64, options: &Options<'_>) -> io::Result<()> {
    // The generator's own way to make a state out of one number spreads neighbours apart.
    let seed = options.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut left = options.content.file_bytes().unwrap_or(0);
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while left > 0 {
        let piece = &mut piece[..left.min(PIECE_BYTES as u64) as usize];
        random.fill_bytes(piece);
        match options.content {
            Content::Binary { .. } => {}
            Content::Records { .. } => make_printable(piece),
            Content::Lines { characters, .. } => {
                make_printable(piece);
                end_lines(piece, at, characters + 1);
            }
        }
        writer.write_all(piece)?;
        at += piece.len() as u64;
        left -= piece.len() as u64;
        if let Some(progress) = options.progress {
            progress(before + at);
        }
    }
    Ok(())
}

/// Makes each byte one of the 94 from `!` to `~`.
fn make_printable(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = b'!' + ((u16::from(*byte) * 94) >> 8) as u8;
    }
}

/// Puts an LF at the end of each line of `line_bytes`; `at` is where the piece is in the file.
fn end_lines(piece: &mut [u8], at: u64, line_bytes: u64) {
    let first = line_bytes - 1 - at % line_bytes;
    for end in (first..piece.len() as u64).step_by(line_bytes as usize) {
        piece[end as usize] = b'\n';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(content: Content, seed: u64) -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { files: 3, seed, ..Options::new(content) };
        let made = generate(&folder.path().join("data"), &options).unwrap();
        let names = (0..3).map(|number| format!("data/{number:06}.{}", content.extension()));
        let files: Vec<_> =
            names.map(|name| std::fs::read(folder.path().join(name)).unwrap()).collect();
        assert_eq!(made, Made { files: 3, bytes: files.iter().map(|f| f.len() as u64).sum() });
        assert_eq!(Some(made.bytes), options.bytes());
        files
    }

    #[test]
    fn files_are_what_was_asked_for_and_follow_from_the_seed() {
        for (lines, characters) in [(0, 5), (1, 0), (5, 0), (7, 13), (3, 300_000), (30_000, 20)] {
            let content = Content::Lines { lines, characters };
            let made = files(content, 7);
            for file in &made {
                assert_eq!(file.split_inclusive(|&byte| byte == b'\n').count() as u64, lines);
                for line in file.split_inclusive(|&byte| byte == b'\n') {
                    let (end, text) = line.split_last().unwrap();
                    assert_eq!((*end, text.len() as u64), (b'\n', characters));
                    assert!(text.iter().all(u8::is_ascii_graphic));
                }
            }
            assert_eq!(made, files(content, 7));
            if lines * characters > 0 {
                assert_ne!(made, files(content, 8));
                assert!(made[0] != made[1] && made[1] != made[2]);
            }
        }
        let records = files(Content::Records { records: 9, record_bytes: 11 }, 0);
        assert!(records.iter().flatten().all(u8::is_ascii_graphic) && records[0].len() == 99);
        assert_eq!(files(Content::Binary { bytes: 1000 }, 0)[2].len(), 1000);
    }

    #[test]
    fn a_seed_gives_the_same_bytes_in_every_version() {
        let line = &files(Content::Lines { lines: 1, characters: 24 }, 42)[1];
        assert_eq!(String::from_utf8_lossy(line), ",;!1f6qxX)mkdC/Kh3AgVF!u\n");
    }

    #[test]
    fn a_disk_is_not_filled_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let long = Content::Lines { lines: 1, characters: UNIT_BYTES_MAX + 1 };
        for (content, files, expected) in [
            (Content::Binary { bytes: u64::MAX }, 2, "at most a million files"),
            (Content::Binary { bytes: 1 }, 1_000_001, "at most a million files"),
            (long, 1, "1 GiB in a line"),
        ] {
            let failure = generate(&data, &Options { files, ..Options::new(content) }).unwrap_err();
            assert!(failure.what().contains(expected), "{failure}");
            assert!(!data.exists());
        }
        let options = Options::new(Content::Binary { bytes: 5 });
        generate(&data, &options).unwrap();
        assert!(generate(&data, &options).unwrap_err().what().contains("it is there already"));
        generate(&data, &Options { existing: Existing::Replace, ..options }).unwrap();
    }

    #[test]
    fn some_of_the_disk_stays_free() {
        let folder = tempfile::tempdir().unwrap();
        let room = rustix::fs::statvfs(folder.path()).unwrap();
        // Others may use the disk, too, so not to the byte.
        let nearly_all = (room.f_bavail * room.f_frsize).saturating_sub(SPARE_BYTES / 2);
        for needed_bytes in [nearly_all, 1 << 60, u64::MAX] {
            let failure = check_room(folder.path(), "data", needed_bytes).unwrap_err();
            assert!(failure.what().contains("bytes are needed"), "{failure}");
        }
        check_room(folder.path(), "data", 0).unwrap();
    }

    #[test]
    fn presets_are_those_of_the_experiment() {
        for (name, files, bytes) in [
            ("small", 10_000, 101_000_000),
            ("medium-short", 100, 1_050_000_000),
            ("medium-long", 100, 1_000_010_000),
            ("big", 20, 2_002_000_000),
        ] {
            let preset = Preset::named(name).unwrap();
            let options = preset.options(1.0);
            assert_eq!((options.files, options.bytes()), (files, Some(bytes)), "{name}");
            assert_eq!(preset.options(0.1).files, files / 10);
            assert_eq!(preset.options(0.0).files, 1);
        }
    }
}
