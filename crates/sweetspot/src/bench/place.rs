//! Where everything of a plan lies: its own folder, what is built and made for it, and the folder in
//! which its runs happen.
//!
//! ```text
//! DIR/lock                  held while something is built or made
//! DIR/build/NAME-KEY/       {build}: programs of one plan
//! DIR/data/NAME-KEY/        one data set
//! DIR/runs/NAME/            one process of `bench`, locked while it lives
//! ```
//!
//! Invariant: `--dir` may name any folder of the user's, so nothing in it is removed that was not made
//! here, and a dry run makes nothing.

use crate::arguments::Bench;
use crate::experiment::lab;
use crate::home;
use crate::named;
use crate::own;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use sweetspot_core::environment as names;
use sweetspot_lab::output::Hash;
use sweetspot_lab::plan::{Plan, Template};
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;
use sweetspot_sandbox::Scratch;

/// The name of a plan's file in its folder.
const PLAN_NAME: &str = "plan.toml";
/// How the names of the folders in `runs` begin.
const RUN_PREFIX: &str = "sweetspot-run-";
/// No sensible plan is larger; a mistaken `bench big.dat` ends quickly.
const PLAN_MEBIBYTES_MAX: u64 = 1;
/// Digits of a hash that make a name.
pub const KEY_DIGITS: usize = 16;

/// A plan's text and the folders that belong to it.
pub struct Workspace {
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
    pub runs: Runs,
    base: PathBuf,
}

/// The folder of this process; a dry run has only its name.
pub enum Runs {
    Made(Scratch),
    Named(PathBuf),
}

impl Runs {
    pub fn path(&self) -> &Path {
        match self {
            Runs::Made(scratch) => scratch.path(),
            Runs::Named(path) => path,
        }
    }
}

impl Workspace {
    /// Finds the plan and makes the folders, but for a dry run.
    ///
    /// # Errors
    /// Where the plan cannot be read, or a folder cannot be made.
    pub fn of(arguments: &Bench) -> Result<Workspace, Failure> {
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
        if !arguments.dry_run {
            made(&base)?;
        }
        let base = whole_path(&base)?;
        let mut key = Hash::default();
        key.add(whole.as_os_str().as_encoded_bytes());
        let build = base.join("build").join(format!("{name}-{}", &key.text()[..KEY_DIGITS]));
        let (data, runs) = (base.join("data"), base.join("runs"));
        let runs = match arguments.dry_run {
            true => Runs::Named(runs.join(RUN_PREFIX)),
            false => {
                [&data, &runs, &build].into_iter().try_for_each(|folder| made(folder))?;
                Runs::Made(Scratch::new(&runs, RUN_PREFIX).map_err(cannot("use", &runs))?)
            }
        };
        Ok(Workspace { file, name, text, folder, build, data, runs, base })
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
        let own = own::running()?;
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
    // The user may have a file of that name: nothing in it is changed.
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(cannot("create", path))?;
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
fn made(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(cannot("make", folder))
}

/// The path of a folder from the root; without links where it is there.
fn whole_path(folder: &Path) -> Result<PathBuf, Failure> {
    folder.canonicalize().or_else(|_| std::path::absolute(folder)).map_err(cannot("use", folder))
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
    named::text(file, PLAN_MEBIBYTES_MAX).map_err(|error| failure(error.to_string()))
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
