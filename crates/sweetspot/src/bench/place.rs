//! Where everything of a plan lies: its own folder, what is built and made for it, and the folder in
//! which its runs happen.
//!
//! ```text
//! DIR/lock                  held while something is built or made
//! DIR/build/NAME-KEY/       {build}: programs of one plan
//! DIR/data/NAME-KEY/        one data set
//! DIR/runs/NAME/            one process of `bench`, locked while it lives
//! ```

use crate::arguments::Bench;
use crate::experiment::lab;
use crate::failure::Failure;
use crate::home;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use sweetspot_core::environment as names;
use sweetspot_lab::output::Hash;
use sweetspot_lab::plan::{Plan, Template};
use sweetspot_report::shown::shown;
use tempfile::TempDir;

/// The name of a plan's file in its folder.
const PLAN_NAME: &str = "plan.toml";
/// No sensible plan is larger; a mistaken `bench big.dat` ends quickly.
const PLAN_BYTES_MAX: u64 = 1 << 20;
/// Digits of a hash that make a name.
pub const KEY_DIGITS: usize = 16;

/// A plan's text and the folders that belong to it.
pub struct Place {
    /// The plan's file, as it was named; a plan in a folder is called as that.
    pub file: PathBuf,
    pub name: String,
    pub text: String,
    /// `{plan}`.
    pub folder: PathBuf,
    /// `{build}`.
    pub build: PathBuf,
    pub data: PathBuf,
    /// Takes the folders of all runs; removed at the end.
    pub runs: TempDir,
    base: PathBuf,
    _running: File,
}

impl Place {
    /// Finds the plan and makes the folders.
    ///
    /// # Errors
    /// Where the plan cannot be read, or a folder cannot be made.
    pub fn of(arguments: &Bench) -> Result<Place, Failure> {
        let named = &arguments.plan;
        let file = if named.is_dir() { named.join(PLAN_NAME) } else { named.clone() };
        let text = read(&file)?;
        let whole = canonical(&file)?;
        let folder = whole.parent().unwrap_or(Path::new("/")).to_path_buf();
        let stem = whole.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = match whole.file_name().is_some_and(|name| name == PLAN_NAME) {
            true => folder.file_name().map_or(stem, |name| name.to_string_lossy().into_owned()),
            false => stem,
        };
        let base = base(arguments)?;
        let base = made(&base)?.canonicalize().map_err(cannot("use", &base))?;
        let mut key = Hash::default();
        key.add(whole.as_os_str().as_encoded_bytes());
        let build = base.join("build").join(format!("{name}-{}", &key.text()[..KEY_DIGITS]));
        let data = made(&base.join("data"))?;
        let runs = made(&base.join("runs"))?;
        let (runs, running) = {
            // Nobody may take for abandoned what was made but is not locked yet.
            let _alone = locked(&base.join("runs.lock"))?;
            remove_abandoned(&runs);
            own_folder(&runs)?
        };
        let build = made(&build)?;
        Ok(Place { file, name, text, folder, build, data, runs, base, _running: running })
    }

    /// The folder that `--dir` names.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Reads the plan.
    ///
    /// # Errors
    /// Where something in it is not understood; the message names the line.
    pub fn plan(&self, scale: Option<&str>) -> Result<Plan, Failure> {
        Plan::read(&self.text, scale).map_err(|error| {
            let place = format!("{}:{}", shown(&self.file), error.line);
            Failure::own(format!("{place}: {}", error.what)).next(error.next)
        })
    }

    /// What a placeholder stands for that is a folder or this binary.
    ///
    /// # Errors
    /// Where its path is no text in UTF-8.
    pub fn values(&self) -> Result<Vec<(String, String)>, Failure> {
        let own = own_binary()?;
        let paths = [("plan", &self.folder), ("build", &self.build), ("sweetspot", &own)];
        paths.iter().map(|(name, path)| Ok(((*name).to_owned(), utf8(path)?.to_owned()))).collect()
    }

    /// Waits until nobody else builds or makes anything here; until the file is dropped nobody does.
    ///
    /// # Errors
    /// Where there can be no such file.
    pub fn lock(&self) -> Result<File, Failure> {
        locked(&self.base.join("lock"))
    }

    /// A hash of commands and of all that they name in the plan's folder.
    ///
    /// # Errors
    /// Where some of that cannot be read.
    pub fn hash(&self, commands: &[Vec<Template>]) -> Result<String, Failure> {
        // Stands for the folder where a word names it.
        const FOLDER: char = '\u{1}';
        let mut hash = Hash::default();
        for word in commands.iter().flatten() {
            let word = word.fill(|name| match name {
                "plan" => FOLDER.to_string(),
                name => format!("{{{name}}}"),
            });
            let word = word.to_string_lossy();
            hash.add(word.as_bytes());
            hash.add(&[0]);
            // The folder may stand within a word: -I/plan/include, or several times in a script.
            for after in word.split(FOLDER).skip(1) {
                let is_end = |c: char| c.is_whitespace() || "\"';:,&|()<>".contains(c);
                let below = after.split(is_end).next().unwrap_or_default().trim_matches('/');
                self.add_below(below, &mut hash)?;
            }
        }
        Ok(hash.text())
    }

    /// Adds what lies in the plan's folder under this name, or all of it; but for what `bench` keeps
    /// there itself.
    fn add_below(&self, name: &str, hash: &mut Hash) -> Result<(), Failure> {
        if !name.is_empty() {
            return hash.add_tree(&self.folder.join(name)).map_err(lab);
        }
        let entries = fs::read_dir(&self.folder).map_err(cannot("list", &self.folder))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort_unstable();
        let own = format!("{}.sqlite", self.name);
        let is_own = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(&own)
        };
        paths.iter().filter(|path| !is_own(path)).try_for_each(|path| {
            hash.add(path.file_name().unwrap_or_default().as_encoded_bytes());
            hash.add_tree(path).map_err(lab)
        })
    }
}

/// This binary, however it was started.
///
/// # Errors
/// Where the system does not tell.
pub fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::own(format!("sweetspot cannot find itself: {error}")))
}

/// A path as text, which it must be to stand in commands.
///
/// # Errors
/// Where it is none.
pub fn utf8(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::own(format!("{}: the path is not UTF-8", shown(path)))
            .next("choose another folder: --dir DIR")
    })
}

/// Waits for a lock, and holds it as long as the file is open.
fn locked(path: &Path) -> Result<File, Failure> {
    let file = File::create(path).map_err(cannot("create", path))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(std::io::Error::from)
        .map_err(cannot("lock", path))?;
    Ok(file)
}

/// An error about a path.
pub fn cannot(operation: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = shown(path);
    move |error| {
        Failure::own(format!("cannot {operation} {path}: {error}"))
            .next("another folder can be used: --dir DIR")
    }
}

/// Makes a folder, unless it is there.
fn made(folder: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(folder).map_err(cannot("make", folder))?;
    Ok(folder.to_path_buf())
}

fn canonical(file: &Path) -> Result<PathBuf, Failure> {
    file.canonicalize().map_err(|error| Failure::own(format!("{}: {error}", shown(file))))
}

fn read(file: &Path) -> Result<String, Failure> {
    let shown = shown(file);
    let failure = |cause: String| {
        Failure::own(format!("{shown}: the plan cannot be read: {cause}"))
            .next("name a TOML file, or a folder with plan.toml in it: sweetspot bench PLAN")
    };
    let len = file.metadata().map_err(|error| failure(error.to_string()))?.len();
    if len > PLAN_BYTES_MAX {
        return Err(failure("it is larger than 1 MiB".to_owned()));
    }
    fs::read_to_string(file).map_err(|error| failure(error.to_string()))
}

fn base(arguments: &Bench) -> Result<PathBuf, Failure> {
    if let Some(folder) = &arguments.dir {
        return Ok(folder.clone());
    }
    let named = std::env::var_os(names::CACHE).map(PathBuf::from);
    let folder = named.filter(|folder| folder.is_absolute()).or_else(home::cache);
    folder.map(|folder| folder.join("bench")).ok_or_else(|| {
        Failure::own("there is no home folder for data and programs")
            .next("name a folder: --dir DIR")
    })
}

/// A folder below `runs`, locked as long as the file is open.
fn own_folder(runs: &Path) -> Result<(TempDir, File), Failure> {
    let folder =
        tempfile::Builder::new().prefix("").tempdir_in(runs).map_err(cannot("use", runs))?;
    let file = File::open(folder.path()).map_err(cannot("open", folder.path()))?;
    // A file system without locks is no reason to fail: then folders are left, not removed.
    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok((folder, file))
}

/// Removes what processes left that were killed.
fn remove_abandoned(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_free = |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if File::open(&path).is_ok_and(|file| is_free(&file)) {
            let _ = fs::remove_dir_all(&path); // what cannot be removed takes room, and no more
        }
    }
}
