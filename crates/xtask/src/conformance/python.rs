//! CPython's own tests, from Debian's `libpython3.11-testsuite`: each test of a module is a result.
//!
//! Named here are the modules in which files, descriptors, processes, signals and threads are what is
//! tested, and those of the libraries that read and write files. Modules that only compute, or that
//! need the network, are not.

use super::{Bench, Check, Kind, Results, Under, shell};
use std::path::Path;
use std::time::Duration;

/// Paths of files in the packages `python3.11` and `libpython3.11-testsuite`.
pub const NEEDS: &[&str] = &["/usr/bin/python3.11", "/usr/lib/python3.11/test/test_io.py"];
/// A module that takes longer hangs.
const LIFE_MAX: Duration = Duration::from_secs(600);

/// In the short form, too: each takes a second or less.
const QUICK: &[&str] = &[
    "test_bufio",
    "test_csv",
    "test_dbm",
    "test_fcntl",
    "test_file",
    "test_fileinput",
    "test_fileio",
    "test_genericpath",
    "test_glob",
    "test_gzip",
    "test_mailbox",
    "test_mmap",
    "test_openpty",
    "test_os",
    "test_pathlib",
    "test_popen",
    "test_posix",
    "test_pty",
    "test_shutil",
    "test_univnewlines",
    "test_wave",
];
/// Of the long form only.
const LONG: &[&str] = &[
    "test_aifc",
    "test_asyncio",
    "test_asyncore",
    "test_atexit",
    "test_builtin",
    "test_bz2",
    "test_cmd_line",
    "test_cmd_line_script",
    "test_codecs",
    "test_compileall",
    "test_concurrent_futures",
    "test_configparser",
    "test_cprofile",
    "test_dbm_dumb",
    "test_dbm_gnu",
    "test_dbm_ndbm",
    "test_eintr",
    "test_epoll",
    "test_faulthandler",
    "test_file_eintr",
    "test_filecmp",
    "test_fileutils",
    "test_fork1",
    "test_getpass",
    "test_httpservers",
    "test_import",
    "test_io",
    "test_ioctl",
    "test_largefile",
    "test_linecache",
    "test_logging",
    "test_lzma",
    "test_marshal",
    "test_memoryio",
    "test_multiprocessing_fork",
    "test_multiprocessing_forkserver",
    "test_multiprocessing_main_handling",
    "test_pdb",
    "test_pickle",
    "test_pipes",
    "test_plistlib",
    "test_poll",
    "test_posixpath",
    "test_py_compile",
    "test_queue",
    "test_readline",
    "test_regrtest",
    "test_resource",
    "test_runpy",
    "test_script_helper",
    "test_select",
    "test_selectors",
    "test_shelve",
    "test_signal",
    "test_site",
    "test_socketserver",
    "test_stat",
    "test_subprocess",
    "test_sunau",
    "test_support",
    "test_sys",
    "test_syslog",
    "test_tarfile",
    "test_tempfile",
    "test_thread",
    "test_threadedtempfile",
    "test_threading",
    "test_threadsignals",
    "test_tokenize",
    "test_trace",
    "test_tracemalloc",
    "test_unicode_file",
    "test_unicode_file_functions",
    "test_urllib",
    "test_utf8_mode",
    "test_uu",
    "test_venv",
    "test_wait3",
    "test_wait4",
    "test_zipapp",
    "test_zipfile",
    "test_zipimport",
    "test_zlib",
];
/// Modules in which something must be buffered: many small calls on one file.
const BUFFERED: &[&str] = &["test_bufio"];

pub fn checks() -> impl Iterator<Item = Check> {
    let both = QUICK.iter().map(|module| (*module, true));
    both.chain(LONG.iter().map(|module| (*module, false))).map(|(module, is_quick)| Check {
        name: format!("python {module}"),
        is_quick,
        is_buffered: BUFFERED.contains(&module),
        kind: Kind::Python(module),
    })
}

/// Runs one module. Returns each of its tests and what became of it.
///
/// # Errors
/// It could not be started, hung, or left no list of its tests.
pub fn perform(bench: &Bench, module: &str, under: Under) -> Result<Results, String> {
    let work = shell::Work::new(bench, module, under)?;
    let mut command = work.command(Path::new(NEEDS[0]));
    command.args(["-m", "test", "--junit-xml", "../tests.xml", "--tempdir", ".", module]);
    command.env("PYTHONHASHSEED", "0");
    let ended = shell::bounded(&mut command, &work, LIFE_MAX)?;
    let list = work.outside().join("tests.xml");
    let text = std::fs::read_to_string(&list)
        .map_err(|_| format!("{ended} without a list of tests; see {}", work.keep().display()))?;
    let mut results = outcomes(&text)?;
    results.insert("the module".to_owned(), ended);
    work.finish()?;
    Ok(results)
}

/// The tests in a JUnit file: a test case with a `failure`, an `error` or a `skipped` inside.
fn outcomes(text: &str) -> Result<Results, String> {
    let document = roxmltree::Document::parse(text).map_err(|error| error.to_string())?;
    let mut results = Results::new();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let name = case.attribute("name").unwrap_or("?").to_owned();
        let inside = case.children().find(|node| node.is_element());
        let outcome = inside.map_or("passed", |node| node.tag_name().name());
        // A test that has subtests may be there several times.
        let so_far = results.entry(name).or_insert_with(|| outcome.to_owned());
        if outcome != "passed" {
            *so_far = outcome.to_owned();
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    #[test]
    fn outcomes_of_tests_are_read() {
        let text = "<testsuites><testsuite><testcase name=\"a\" /><testcase name=\"b\">\
                    <skipped>why</skipped></testcase><testcase name=\"c\"><failure/></testcase>\
                    <testcase name=\"c\" /></testsuite></testsuites>";
        let found = super::outcomes(text).expect("well formed");
        let pairs: Vec<(&str, &str)> =
            found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(pairs, [("a", "passed"), ("b", "skipped"), ("c", "failure")]);
        assert!(super::outcomes("<testsuites>").is_err());
    }
}
