//! Compiles the programs under `programs/` once, into one folder of the target directory.
//!
//! A program is compiled again when its source, a header beside it or its command changed; the
//! stamp file beside the executable holds what it was made from.

use crate::harness;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// How a program is made from its source.
#[derive(Clone, Copy, Debug)]
pub enum Build {
    /// `programs/c/NAME.c`
    C(&'static str),
    /// `programs/c/NAME.c` for the C library musl; found under `$BIN/musl`.
    Musl(&'static str),
    /// `programs/c/NAME.c`, a library to be preloaded.
    CLibrary(&'static str),
    /// `programs/c/NAME.c`, with options of its own.
    CWith(&'static str, &'static [&'static str]),
    /// `programs/c/NAME.c`, linked to libraries that are made before it.
    CLinked(&'static str, &'static [&'static str]),
    /// `programs/cxx/NAME.cpp`
    Cxx(&'static str),
    /// `programs/cobol/NAME.cob`
    Cobol(&'static str),
    /// `programs/fortran/NAME.f90`
    Fortran(&'static str),
    /// `programs/java/NAME.java`; the classes land in `$BIN/java`.
    Java(&'static str),
    /// `programs/rust/NAME.rs`
    Rust(&'static str),
}

impl Build {
    /// The commands that must be there, as `programs/needs.txt` names them.
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Build::C(_) | Build::CLibrary(_) | Build::CWith(..) | Build::CLinked(..) => &["gcc"],
            Build::Musl(_) => &["musl-gcc"],
            Build::Cxx(_) => &["g++"],
            Build::Cobol(_) => &["cobc"],
            Build::Fortran(_) => &["gfortran"],
            Build::Java(_) => &["javac", "java"],
            Build::Rust(_) => &[],
        }
    }

    /// The folder of the executable.
    fn folder(self) -> &'static str {
        if let Build::Musl(_) = self { "musl" } else { self.source().0 }
    }

    /// The folder under `programs/`, the name and the source's extension.
    fn source(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Build::C(name) | Build::Musl(name) | Build::CLibrary(name) => ("c", name, "c"),
            Build::CWith(name, _) | Build::CLinked(name, _) => ("c", name, "c"),
            Build::Cxx(name) => ("cxx", name, "cpp"),
            Build::Cobol(name) => ("cobol", name, "cob"),
            Build::Fortran(name) => ("fortran", name, "f90"),
            Build::Java(name) => ("java", name, "java"),
            Build::Rust(name) => ("rust", name, "rs"),
        }
    }

    /// The compiler and its arguments, without source and target.
    fn compiler(self) -> Vec<String> {
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
        // The one place for what every C compiler of the tests is told (`tests/compiler`).
        let options = format!("@{}", sources().join("c/options.txt").display());
        let words: Vec<&str> = match self {
            Build::C(_) | Build::CLinked(..) => vec!["gcc", &options],
            Build::Musl(_) => vec!["musl-gcc", &options, "-D_LARGEFILE64_SOURCE"],
            Build::CLibrary(_) => vec!["gcc", &options, "-shared", "-fPIC"],
            Build::CWith(_, own) => ["gcc", &options].iter().chain(own).copied().collect(),
            Build::Cxx(_) => vec!["g++", &options, "-std=c++17"],
            Build::Cobol(_) => vec!["cobc", "-x"],
            Build::Fortran(_) => vec!["gfortran", "-O1"],
            Build::Java(_) => vec!["javac", "-nowarn", "-Xlint:-deprecation"],
            Build::Rust(_) => vec![&rustc, "-O", "--edition=2021"],
        };
        words.into_iter().map(String::from).collect()
    }
}

/// The folder of the sources, `programs/` of the project.
pub fn sources() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().and_then(Path::parent).expect("crates/sweetspot").join("programs")
}

/// The folder of the executables, with one folder a language.
pub fn executables() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(made) = made_before() {
            return made;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs-bin");
        fs::create_dir_all(&folder).expect("the folder for executables can be made");
        folder
    })
}

/// The folder of executables that were made elsewhere, where there is no compiler.
fn made_before() -> Option<PathBuf> {
    std::env::var_os("SWEETSPOT_TEST_BIN").map(PathBuf::from)
}

/// What is missing of what an executable needs: a compiler, or itself where none compiles.
pub fn missing(build: Build) -> Option<String> {
    let (folder, (_, name, _)) = (build.folder(), build.source());
    match made_before() {
        Some(made) if made.join(folder).join(name).is_file() => None,
        Some(_) => Some(format!("no {folder}/{name} was made")),
        None => build.needs().iter().find_map(|command| harness::no_command(command)),
    }
}

/// Makes the executable unless it is there already.
///
/// # Errors
/// What the compiler said.
pub fn make(build: Build) -> Result<(), String> {
    if made_before().is_some() {
        return Ok(());
    }
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (folder, name, extension) = build.source();
    let source = sources().join(folder).join(format!("{name}.{extension}"));
    let compiler = build.compiler();
    let wanted = stamp(&source, &compiler)?;
    let made_folder = executables().join(build.folder());
    let stamp_file = made_folder.join(format!("{name}.stamp"));
    if fs::read(&stamp_file).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    let scratch = made_folder.join(format!("{name}.tmp"));
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let mut command = Command::new(&compiler[0]);
    command.args(&compiler[1..]).current_dir(&scratch).env("LC_ALL", "C");
    match build {
        Build::Java(_) => command.arg("-d").arg(&scratch).arg(&source),
        _ => command.arg("-o").arg(scratch.join(name)).arg(&source),
    };
    if let Build::CLinked(_, libraries) = build {
        command.arg(format!("-L{}", made_folder.display())).arg("-Wl,-rpath,$ORIGIN");
        command.args(libraries.iter().map(|library| format!("-l:{library}")));
    }
    let output = command.output().map_err(|error| format!("{compiler:?}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} does not compile: {said}", source.display()));
    }
    for made in fs::read_dir(&scratch).into_iter().flatten().flatten() {
        let target = made_folder.join(made.file_name());
        fs::rename(made.path(), &target)
            .map_err(|error| format!("{}: {error}", target.display()))?;
    }
    let _ = fs::remove_dir_all(&scratch);
    fs::write(&stamp_file, wanted).map_err(|error| format!("{}: {error}", stamp_file.display()))
}

/// What an executable is made from: command, source, options and the headers beside it.
fn stamp(source: &Path, compiler: &[String]) -> Result<Vec<u8>, String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut stamp = compiler.join(" ").into_bytes();
    stamp.extend(read(source)?);
    stamp.extend(read(&sources().join("c/options.txt"))?);
    let beside = source.parent().into_iter().flat_map(fs::read_dir).flatten().flatten();
    let mut headers: Vec<PathBuf> = beside.map(|entry| entry.path()).collect();
    headers.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
    headers.sort();
    for header in headers {
        stamp.extend(read(&header)?);
    }
    Ok(stamp)
}

/// What a source of a file system includes, and where that is.
const FUSE: &str = "<fuse3/fuse.h>";
const FUSE_HEADER: &str = "/usr/include/fuse3/fuse.h";

/// What users compile themselves has no warning either: the benchmarks, the classics and the example.
#[test]
fn c_programs_for_users_compile_without_a_warning() {
    let root = sources().join("..");
    let mut folders = vec![root.join("benchmarks"), root.join("crates/sweetspot-preload/examples")];
    let plans = fs::read_dir(root.join("classics")).expect("the classics");
    folders.extend(plans.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()));
    let options = Build::C("").compiler();
    let (mut compiled, mut wrong) = (0, Vec::new());
    for entry in folders.iter().flat_map(fs::read_dir).flatten().flatten() {
        let source = entry.path();
        if source.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        compiled += 1;
        let text = fs::read_to_string(&source).expect("a source");
        if let Some(missing) = text.contains(FUSE).then(|| harness::no_file(FUSE_HEADER)).flatten()
        {
            harness::skipped(&format!("{}: {missing}", source.display()), &mut wrong);
            continue;
        }
        let mut gcc = Command::new(&options[0]);
        gcc.args(&options[1..]).args(["-O2", "-c", "-o", "/dev/null"]).env("LC_ALL", "C");
        gcc.arg("-I").arg(root.join("crates/sweetspot-preload/include")).arg(&source);
        let output = gcc.output().expect("gcc is there (apt-get install build-essential)");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", source.display());
    }
    assert!(compiled >= 9, "{compiled} programs");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
