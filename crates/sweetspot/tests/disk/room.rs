//! Where a disk, or a file, takes no more: the call that fails is the one that would have failed.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use test_start::{stdout, turn};

use super::{DISK_MEGABYTES, Disk, compiler};

/// What a victim of its own says, without and with a buffer of each size, on a disk of so many megabytes.
fn check_room(name: &str, ways: &[&str], disk_megabytes: Option<u32>) {
    check_room_on(name, ways, disk_megabytes.map(|size| move |folder| Disk::mount(folder, size)));
}

/// The same on a disk that is mounted in a folder, or on none.
fn check_room_on(name: &str, ways: &[&str], mount: Option<impl Fn(PathBuf) -> Option<Disk>>) {
    let victim = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-victim"));
    let _turn = turn();
    compiler::compile("room", &[], &victim);
    for how in ways {
        let mut expected = None;
        for size in ["off", "auto", "512", "64K", "1M"] {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
            let disk = mount.as_ref().map(|mount| mount(folder.path().join("disk")));
            let place = match &disk {
                None => folder.path(),
                Some(Some(disk)) => &disk.0,
                Some(None) => {
                    return test_start::skip("mounting a file system needs root");
                }
            };
            let mut command = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
            command.args(["run", "--buffer-size", size, "--"]).arg(&victim).arg(how).arg(place);
            if how.ends_with("given") {
                let mut options = File::options();
                options.write(true).append(how.contains("append")).create(true);
                command.stdin(options.open(place.join("given")).expect("opened"));
            }
            let output = command.output().expect("started");
            if output.status.code() == Some(77) {
                println!("skipped: no file of the largest size here");
                continue;
            }
            assert!(output.status.success(), "{how}, {size}: {output:?}");
            let said = stdout(&output);
            assert_eq!(expected.get_or_insert_with(|| said.clone()), &said, "{how}, {size}");
        }
    }
}

#[test]
fn a_small_disk_takes_what_fits_and_refuses_the_rest() {
    check_room("small-disk", &["full", "many", "append", "late"], Some(6));
}

#[test]
fn a_disk_that_is_filled_beside_takes_what_fits() {
    let ways = [
        "written",
        "sent",
        "allocated",
        "streamed",
        "formatted",
        "flagged",
        "asynchronous",
        "unfollowed",
        "told",
        "untold",
    ];
    let ways = ways.map(|way| format!("beside-{way}"));
    check_room("filled-beside", &ways.each_ref().map(String::as_str), Some(DISK_MEGABYTES));
}

#[test]
fn positions_end_where_those_of_the_file_system_end() {
    check_room_on("positions", &["positions"], Some(Disk::mount_old));
}

#[test]
fn a_file_grows_to_the_largest_size_and_no_further() {
    let ways = ["largest", "jump", "largest-append", "largest-given", "largest-append-given"];
    check_room("largest-file", &ways, None);
}
