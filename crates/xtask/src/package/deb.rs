//! `cargo xtask deb`: the staged folder as `/usr`, with what Debian's policy asks for.

use super::{Error, GLIBC_FLOOR, Staged, VERSION, call, dated, source_date, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAINTAINER: &str = "The sweetspot authors <sweetspot@localhost>";

const DESCRIPTION: &str = "\
Description: finds the right I/O buffering for a program and applies it
 Runs a program that nobody changes with a buffer underneath its own reads and
 writes: the same bytes, the same exit status, fewer system calls. It is for
 programs that read or write small records with one system call each.
 .
 Also finds the size of the buffer that suits a program, shows which programs
 need one, proves that it changes nothing, and measures.
";

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sweetspot

Files: *
Copyright: 2026 The sweetspot authors
License: Expat or Apache-2.0

License: Apache-2.0
 On Debian systems, the full text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.

License: Expat
";

/// What it leaves in the folders of users is theirs. What root's own runs wrote is the package's.
const AFTER_REMOVAL: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = purge ]; then
    rm -rf /var/cache/sweetspot /var/lib/sweetspot/costs
    # What a killed run of root's left is not the package's.
    rmdir /var/lib/sweetspot/ledgers /var/lib/sweetspot 2>/dev/null || true
fi
";

/// Each with its reason.
const OVERRIDES: &str = "\
# It is started before every program that it runs; without a dynamic linker that takes a third less.
sweetspot: statically-linked-binary
sweetspot: shared-library-lacks-prerequisites
# SQLite keeps the runs of `tune` and `bench`; a static program carries what it uses.
sweetspot: embedded-library
# There is no bug to be closed by a first package.
sweetspot: initial-upload-closes-no-bugs
# The project has no address.
sweetspot: bogus-mail-host
sweetspot: bogus-mail-host-in-debian-changelog
";

/// Makes it and says where it is.
pub fn make(staged: &Staged) -> Result<PathBuf, Error> {
    let architecture = staged.machine.debian();
    let (major, minor) = GLIBC_FLOOR;
    let tree = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |path: &str| tree.path().join(path);
    call(Command::new("cp").arg("-a").arg(staged.prefix()).arg(at("usr")))?;
    documents(&at("usr/share/doc/sweetspot"))?;
    write(&at("usr/share/lintian/overrides/sweetspot"), OVERRIDES)?;
    let kib = call(Command::new("du").arg("-sk").arg(at("usr")))?;
    let kib = kib.split_whitespace().next().unwrap_or_default();
    write(
        &at("DEBIAN/control"),
        &format!(
            "Package: sweetspot\nVersion: {VERSION}-1\nArchitecture: {architecture}\n\
             Maintainer: {MAINTAINER}\nInstalled-Size: {kib}\nDepends: libc6 (>= {major}.{minor})\n\
             Section: utils\nPriority: optional\n{DESCRIPTION}"
        ),
    )?;
    write(&at("DEBIAN/postrm"), AFTER_REMOVAL)?;
    let sums = "find usr -type f -printf '%P\\0' | LC_ALL=C sort -z \
                | (cd usr && xargs -0 md5sum) | sed 's,  ,  usr/,' > DEBIAN/md5sums";
    call(Command::new("sh").args(["-ec", sums]).current_dir(tree.path()))?;
    call(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(tree.path()))?;
    call(Command::new("chmod").arg("755").arg(at("DEBIAN/postrm")))?;
    let package = staged.packages.join(format!("sweetspot_{VERSION}-1_{architecture}.deb"));
    let mut build = dated("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(tree.path()).arg(&package);
    call(&mut build).map(|_| package)
}

/// The documents as the policy wants them.
fn documents(folder: &Path) -> Result<(), Error> {
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::remove_file(folder.join(license)).map_err(|error| error.to_string())?;
    }
    let mit = fs::read_to_string(super::root().join("LICENSE-MIT"));
    let mit = mit.map_err(|error| format!("LICENSE-MIT: {error}"))?;
    // After the title and the line of the copyright; an empty line is a dot.
    let text = mit.lines().skip(4).map(|line| match line.trim() {
        "" => " .\n".to_owned(),
        line => format!(" {line}\n"),
    });
    write(&folder.join("copyright"), &format!("{COPYRIGHT}{}", text.collect::<String>()))?;
    fs::rename(folder.join("CHANGELOG.md"), folder.join("changelog"))
        .map_err(|error| error.to_string())?;
    let date = call(Command::new("date").args(["-R", "-u", "-d", &format!("@{}", source_date())]))?;
    write(
        &folder.join("changelog.Debian"),
        &format!(
            "sweetspot ({VERSION}-1) unstable; urgency=medium\n\n  * What changed is in \
             changelog.gz.\n\n -- {MAINTAINER}  {date}\n"
        ),
    )?;
    call(
        Command::new("gzip").arg("-9n").args(["changelog", "changelog.Debian"]).current_dir(folder),
    )?;
    Ok(())
}
