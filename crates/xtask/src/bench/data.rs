//! What the benchmarks read. It is made once, kept in the folder given by `--dir`, and used again.
//!
//! Invariant: what has its final name is complete: everything is made under another name first.

use super::table::Input;
use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};
use sweetspot_lab::{Error, measure, measure::Job, schedule::Random};

/// The length of a record with its line end, in bytes.
const RECORD_BYTES: usize = 200;

/// The length of a small file, in bytes.
const SMALL_FILE_BYTES: usize = 1000;

/// Makes an input in `folder` unless it is there. `None` for a job that reads nothing.
pub fn prepare(input: Input, count: u64, folder: &Path) -> Result<Option<PathBuf>, Error> {
    type Make = fn(&Path, u64) -> Result<(), Error>;
    let (name, make): (String, Make) = match input {
        Input::None => return Ok(None),
        Input::Records => (format!("records-{count}.txt"), records),
        Input::Bytes => (format!("bytes-{count}.dat"), bytes),
        Input::Pair => (format!("pair-{count}"), pair),
        Input::ShortLines => (format!("short-lines-{count}.txt"), short_lines),
        Input::Accented => (format!("accented-{count}.txt"), accented),
        Input::SmallFiles => (format!("small-files-{count}"), small_files),
        Input::Repository => (format!("repository-{count}"), repository),
        Input::SqlOneTransaction => (format!("one-transaction-{count}.sql"), sql_one_transaction),
        Input::SqlSeparate => (format!("separate-{count}.sql"), sql_separate),
    };
    let path = folder.join(&name);
    if path.exists() {
        return Ok(Some(path));
    }
    let unfinished = folder.join(format!("{name}.unfinished"));
    remove(&unfinished)?;
    make(&unfinished, count)?;
    fs::rename(&unfinished, &path).map_err(Error::system("rename", &unfinished))?;
    Ok(Some(path))
}

/// Removes a file or a folder with all that is in it; nothing is no error.
pub fn remove(path: &Path) -> Result<(), Error> {
    let result = match path.symlink_metadata() {
        Err(_) => return Ok(()),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    result.map_err(Error::system("remove", path))
}

/// Makes a file with what `fill` writes.
fn file(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let file = File::create(path).map_err(Error::system("create", path))?;
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    fill(&mut writer)
        .and_then(|()| writer.into_inner()?.sync_all())
        .map_err(Error::system("write", path))
}

fn records(path: &Path, count: u64) -> Result<(), Error> {
    const TEXT: &[u8] = b"the quick brown fox jumps over the lazy dog and back again; ";
    const NUMBER_LEN: usize = 12;
    let mut record: Vec<u8> = TEXT.iter().copied().cycle().take(RECORD_BYTES).collect();
    record[NUMBER_LEN] = b' ';
    record[RECORD_BYTES - 1] = b'\n';
    file(path, |writer| {
        for number in 0..count {
            write!(&mut record[..NUMBER_LEN], "{number:012}")?;
            writer.write_all(&record)?;
        }
        Ok(())
    })
}

/// Random bytes; every 4 KiB block differs from the others by its number.
fn bytes(path: &Path, count: u64) -> Result<(), Error> {
    const BLOCK_LEN: usize = 4096;
    let mut random = Random::new(count);
    let chunk: Vec<u8> = (0..(1 << 20) / 8).flat_map(|_| random.bits().to_le_bytes()).collect();
    file(path, |writer| {
        let mut block = [0; BLOCK_LEN];
        for number in 0..count.div_ceil(BLOCK_LEN as u64) {
            let at = number as usize * BLOCK_LEN % chunk.len();
            block.copy_from_slice(&chunk[at..at + BLOCK_LEN]);
            block[..8].copy_from_slice(&number.to_le_bytes());
            let left = count - number * BLOCK_LEN as u64;
            writer.write_all(&block[..left.min(BLOCK_LEN as u64) as usize])?;
        }
        Ok(())
    })
}

fn pair(folder: &Path, count: u64) -> Result<(), Error> {
    fs::create_dir(folder).map_err(Error::system("create", folder))?;
    bytes(&folder.join("one"), count)?;
    bytes(&folder.join("other"), count)
}

fn short_lines(path: &Path, count: u64) -> Result<(), Error> {
    let mut random = Random::new(count);
    file(path, |writer| {
        for _ in 0..count {
            // 12 letters and digits, and one that is neither.
            writeln!(writer, "{:012x}.", random.bits() >> 16)?;
        }
        Ok(())
    })
}

fn accented(path: &Path, count: u64) -> Result<(), Error> {
    const ACCENTED: &[u8] = b"\xE0\xE4\xE9\xEF\xF1\xF6\xFC\xDF";
    let mut random = Random::new(count);
    file(path, |writer| {
        for _ in 0..count {
            let bits = random.bits() as usize;
            let byte = match bits % 16 {
                0 => ACCENTED[bits / 16 % ACCENTED.len()],
                _ => b'a' + (bits / 16 % 26) as u8,
            };
            writer.write_all(&[byte])?;
        }
        Ok(())
    })
}

fn small_files(folder: &Path, count: u64) -> Result<(), Error> {
    fs::create_dir(folder).map_err(Error::system("create", folder))?;
    for number in 0..count {
        // The names that benchmarks/small-files.c reads.
        let path = folder.join(format!("{number:06}"));
        let letter = b'a' + (number % 26) as u8;
        fs::write(&path, [letter; SMALL_FILE_BYTES]).map_err(Error::system("write", &path))?;
    }
    Ok(())
}

fn repository(folder: &Path, count: u64) -> Result<(), Error> {
    const FILES_PER_FOLDER: u64 = 100;
    fs::create_dir(folder).map_err(Error::system("create", folder))?;
    for number in 0..count {
        let below = folder.join(format!("part-{:03}", number / FILES_PER_FOLDER));
        fs::create_dir_all(&below).map_err(Error::system("create", &below))?;
        let path = below.join(format!("file-{number:06}.txt"));
        let text = format!("file {number}\n").repeat(50);
        fs::write(&path, text).map_err(Error::system("write", &path))?;
    }
    const COMMIT: &[&str] = &[
        "-c",
        "user.name=benchmark",
        "-c",
        "user.email=benchmark@localhost",
        "commit",
        "-q",
        "-m",
        "All files",
    ];
    for arguments in [&["init", "-q"][..], &["add", "."], COMMIT] {
        let mut job = Job::new(["git", "-C"]);
        job.command.push(folder.into());
        job.command.extend(arguments.iter().map(Into::into));
        job.environment = super::execute::environment();
        let status = measure::run(&job)?.status;
        if !status.success() {
            let program = format!("git {}", arguments[0]);
            return Err(Error::Failed { program, reason: status.to_string() });
        }
    }
    Ok(())
}

const SQL_TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, amount REAL);";

fn sql_one_transaction(path: &Path, count: u64) -> Result<(), Error> {
    file(path, |writer| {
        writeln!(writer, "{SQL_TABLE}\nBEGIN;")?;
        sql_rows(writer, count)?;
        writeln!(writer, "COMMIT;\nSELECT count(*), sum(amount) FROM t;")
    })
}

fn sql_separate(path: &Path, count: u64) -> Result<(), Error> {
    file(path, |writer| {
        writeln!(writer, "{SQL_TABLE}")?;
        sql_rows(writer, count)?;
        writeln!(writer, "SELECT count(*), sum(amount) FROM t;")
    })
}

fn sql_rows(writer: &mut impl Write, count: u64) -> std::io::Result<()> {
    (0..count).try_for_each(|number| {
        writeln!(writer, "INSERT INTO t VALUES ({number}, 'name of {number}', {number}.5);")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_their_size_and_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        for (input, count, bytes) in [
            (Input::Records, 3, Some(600)),
            (Input::Bytes, 10_000, Some(10_000)),
            (Input::Bytes, 3_000_000, Some(3_000_000)),
            (Input::SmallFiles, 5, None),
            (Input::SqlSeparate, 2, None),
        ] {
            let path = prepare(input, count, folder.path()).unwrap().unwrap();
            let made = fs::metadata(&path).unwrap();
            if let Some(bytes) = bytes {
                assert_eq!(made.len(), bytes, "{}", path.display());
            }
            assert_eq!(prepare(input, count, folder.path()).unwrap().unwrap(), path);
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            assert_eq!(modified, made.modified().unwrap(), "made twice");
        }
        assert_eq!(prepare(Input::None, 1, folder.path()).unwrap(), None);
    }

    #[test]
    fn an_unfinished_input_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("records-2.txt.unfinished"), "half").unwrap();
        let path = prepare(Input::Records, 2, folder.path()).unwrap().unwrap();
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].starts_with("000000000001 ") && lines[1].len() == 199, "{}", lines[1]);
    }
}
