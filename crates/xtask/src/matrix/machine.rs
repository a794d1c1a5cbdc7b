//! Virtual machines with Debian's own kernels, by qemu's emulation: no KVM is needed.
//!
//! One disk holds everything: a few packages, unpacked and not installed; the kernel's overlay
//! module, as the only one that is no part of the kernel; and what is to be run. There is no initial
//! file system: ext4 and NVMe are built into these kernels. The first process is a script, which
//! mounts what a program expects, does the work, and turns the machine off. All that it says, the
//! answers among it, comes over the serial line.
//!
//! Emulation is some twenty times slower, so little is done, and victims are compiled outside: in the
//! root of the same release, or for another processor by a cross compiler.

use super::made::{self, Made};
use super::root::{Root, SUITES};
use super::{Extent, Step, Work, call, copy, folder, inside, listen, no_command, told};
use crate::debian;
use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A machine that is booted.
#[derive(Debug)]
pub struct Machine {
    pub name: &'static str,
    pub what: &'static str,
    /// The release from which kernel and programs come.
    suite: &'static str,
    /// As compilers name it, and as Debian does.
    architecture: &'static str,
    debian: &'static str,
    /// The emulator and its words for this kind of machine.
    qemu: &'static [&'static str],
    console: &'static str,
    /// What is new in it.
    extent: Extent,
}

/// Without `cmpxchg16b`: a kernel 6.12 has panicked at an interrupt just after one, with flags that no
/// processor leaves.
const PC: &[&str] = &["qemu-system-x86_64", "-M", "q35", "-cpu", "max,-cx16"];
/// Pointer authentication in software as the architecture has it takes two thirds of the time.
const ARM: &[&str] = &["qemu-system-aarch64", "-M", "virt", "-cpu", "max,pauth-impdef=on"];

const fn pc(name: &'static str, what: &'static str, suite: &'static str) -> Machine {
    let (architecture, debian, console) = ("x86_64", "amd64", "ttyS0");
    let extent = Extent::Kernel;
    Machine { name, what, suite, architecture, debian, qemu: PC, console, extent }
}

pub const MACHINES: &[Machine] = &[
    pc("vm 5.10", "kernel 5.10, glibc 2.31", "bullseye"),
    pc("vm 6.1", "kernel 6.1, glibc 2.36", "bookworm"),
    pc("vm 6.12", "kernel 6.12, glibc 2.41", "trixie"),
    Machine {
        name: "vm arm64",
        what: "aarch64, kernel 6.12, glibc 2.41",
        suite: "trixie",
        architecture: "aarch64",
        debian: "arm64",
        qemu: ARM,
        console: "ttyAMA0",
        extent: Extent::Processor,
    },
];

/// What the script and the programs of every day in the table need.
const PACKAGES: &[&str] = &[
    "base-files",
    "bash",
    "bsdextrautils",
    "busybox-static",
    "coreutils",
    "dash",
    "diffutils",
    "findutils",
    "gawk",
    "grep",
    "gzip",
    "libc-bin",
    "mount",
    "perl-base",
    "procps",
    "sed",
    "tar",
    "util-linux",
];
/// Memory of a machine, MiB, and of its disk what is free.
const MEMORY_MB: &str = "1536";
const DISK_FREE_MB: u64 = 400;
/// A machine that takes longer hangs, seconds; on two busy processors a quarter of an hour is usual, and
/// an hour and a half for the whole table.
const LIFE_SECONDS_MAX: &str = "14400";

const INIT: &str = r#"#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm; mount -t devpts devpts /dev/pts
# Where the project lies in /tmp, what is to be run does, too.
[ "$(ls -A /tmp)" ] || mount -t tmpfs -o mode=1777 tmpfs /tmp
chmod 1777 /tmp; mount -t tmpfs tmpfs /run
ln -sf /proc/self/fd /dev/fd
busybox ip link set lo up
busybox insmod /job/overlay.ko
sh /job/run
echo "END:$?"
sync
busybox poweroff -f
"#;

/// Whether what a machine said goes to the end of its script: a kernel that panics says no such word.
fn has_ended(said: &str) -> bool {
    said.lines().any(|line| line.contains("END:"))
}

impl Machine {
    /// What this machine lacks to boot that one.
    pub fn lacking(&self) -> Option<String> {
        let emulator = match self.debian {
            "arm64" => "qemu-system-arm",
            _ => "qemu-system-x86",
        };
        let cross = made::cross_compiler(self.architecture);
        let mut needs = vec![(self.qemu[0], emulator), ("mke2fs", "e2fsprogs"), ("xz", "xz-utils")];
        if self.architecture != ARCH {
            needs.push((&cross, "gcc-aarch64-linux-gnu"));
        }
        no_command(&needs)
    }

    /// Boots it and collects the answers.
    ///
    /// # Errors
    /// It could not be made or started.
    pub fn run(&self, work: &Work) -> Result<Vec<Step>, String> {
        let system = self.system()?;
        let made = made::made_for(self.architecture)?;
        let tree = work.path.join("tree");
        call(Command::new("cp").arg("-a").arg(system.join("tree")).arg(&tree))?;
        self.fill(&tree, &made, work)?;
        let disk = work.path.join("disk");
        let used = call(Command::new("du").arg("-sm").arg(&tree))?;
        let used: u64 = used.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let mut make = Command::new("mke2fs");
        make.args(["-q", "-t", "ext4", "-d"]).arg(&tree).arg(&disk);
        call(make.arg(format!("{}M", used + used / 8 + DISK_FREE_MB)))?;
        fs::remove_dir_all(&tree).map_err(|error| format!("{}: {error}", tree.display()))?;

        // `timeout` would leave the emulator behind if it were killed; a namespace does not.
        let mut boot = debian::apart();
        boot.args(["timeout", "--foreground", "--kill-after=5", LIFE_SECONDS_MAX]).args(self.qemu);
        boot.args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", MEMORY_MB]);
        boot.args(["-nographic", "-nodefaults", "-serial", "stdio", "-no-reboot"]);
        boot.arg("-drive");
        boot.arg(format!("if=none,id=disk,format=raw,cache=unsafe,file={}", disk.display()));
        boot.args(["-device", "nvme,drive=disk,serial=disk"]);
        boot.arg("-kernel").arg(system.join("kernel")).arg("-append");
        // The kernel's tests of its own ciphers are of the emulator's instructions, and one has panicked.
        boot.arg(format!(
            "console={} root=/dev/nvme0n1 rootwait rootfstype=ext4 rw init=/init panic=-1 quiet \
             cryptomgr.notests",
            self.console
        ));
        let mut steps = listen(&mut boot, self.name)?;
        let log = super::log(self.name);
        if !fs::read_to_string(&log).is_ok_and(|text| has_ended(&text)) {
            let wrong = format!("it ended before its script did; see {}", log.display());
            steps.push(told(Step::new("system", wrong)));
        }
        Ok(steps)
    }

    /// Kernel, module and programs, unpacked now unless they were before.
    fn system(&self) -> Result<PathBuf, String> {
        let path = folder().join("systems").join(format!("{}-{}", self.suite, self.debian));
        if path.is_dir() {
            return Ok(path);
        }
        let begun = path.with_extension("begun");
        let failed = |error: std::io::Error| format!("{}: {error}", begun.display());
        if begun.is_dir() {
            fs::remove_dir_all(&begun).map_err(failed)?;
        }
        fs::create_dir_all(&begun).map_err(failed)?;
        let tree = begun.join("tree");
        println!("unpacking {} for {}", self.suite, self.debian);
        let mut make = debian::mmdebstrap();
        make.args(["--variant=extract", &format!("--architectures={}", self.debian)]);
        let kernel = format!("linux-image-cloud-{}", self.debian);
        make.arg(format!("--include={},{kernel}", PACKAGES.join(",")));
        call(make.arg(self.suite).arg(&tree).arg(debian::mirror()?))?;
        call(Command::new("sh").args(["-euc", PRUNE, "sh"]).arg(&tree).arg(&begun))?;
        fs::rename(&begun, &path).map_err(failed)?;
        Ok(path)
    }

    /// Puts what is to be run into the tree.
    fn fill(&self, tree: &Path, made: &Made, work: &Work) -> Result<(), String> {
        let project = crate::project::root();
        let within = |path: &Path| tree.join(path.strip_prefix("/").unwrap_or(path));
        // At the paths that were fixed when the harness was compiled.
        for path in [&made.xtask, &made.harness, &made.sweetspot] {
            copy(path, &within(path))?;
        }
        let failed = |error: std::io::Error| format!("{}: {error}", tree.display());
        for folder in [&made.scratch, &project.join("target/tmp"), &project.join("programs")] {
            fs::create_dir_all(within(folder)).map_err(failed)?;
        }
        let programs = within(&project.join("programs"));
        call(Command::new("cp").arg("-a").arg(project.join("programs/.")).arg(programs))?;
        let victims = self.victims(work)?;
        call(Command::new("cp").arg("-a").arg(victims).arg(tree.join("job/victims")))?;
        symlink(&made.sweetspot, tree.join("job/victims/sweetspot")).map_err(failed)?;
        let words = inside::words(made, self.extent, Path::new("/job/victims"));
        let run = format!("cd /job && exec {} matrix {}\n", made.xtask.display(), words.join(" "));
        for (name, text) in [("init", INIT), ("job/run", &run)] {
            fs::write(tree.join(name), text).map_err(failed)?;
        }
        call(Command::new("chmod").arg("755").arg(tree.join("init"))).map(drop)
    }

    /// A folder with all victims in C, in `c`.
    fn victims(&self, work: &Work) -> Result<PathBuf, String> {
        if self.architecture != ARCH {
            let folder = work.folder("victims")?;
            made::victims(&folder.join("c"), &made::cross_compiler(self.architecture))?;
            return Ok(folder);
        }
        let suite = SUITES.iter().find(|suite| suite.name == self.suite);
        let root = Root::open(suite.ok_or("no such suite")?, Extent::Full)?;
        let here = made::made_for(ARCH)?;
        let mut compile = root.enter(&here, work)?;
        compile.arg(&here.xtask).args(["matrix", "victims", "/tmp/victims/c", "gcc"]);
        call(&mut compile)?;
        Ok(work.path.join("root/tmp/victims"))
    }
}

/// Leaves of unpacked packages what a machine needs: the kernel and its overlay module beside them,
/// as this machine need not have a program that reads compressed modules.
const PRUNE: &str = r#"
tree=$1 beside=$2
mkdir -p "$tree/job" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/run" "$tree/tmp" "$tree/root"
mv "$tree"/boot/vmlinuz-* "$beside/kernel"
module=$(find "$tree/lib/modules/" "$tree/usr/lib/modules/" -name 'overlay.ko*' 2>/dev/null | head -n 1)
case $module in
*.xz) xz -dc "$module" > "$tree/job/overlay.ko" ;;
*) cp "$module" "$tree/job/overlay.ko" ;;
esac
rm -rf "$tree"/boot/* "$tree"/lib/modules/* "$tree"/usr/lib/modules/* \
    "$tree"/usr/share/doc "$tree"/usr/share/man "$tree"/usr/share/locale \
    "$tree"/usr/lib/python3* "$tree"/usr/share/perl*
[ -e "$tree/bin/sh" ] || ln -s dash "$tree/bin/sh"
[ -e "$tree/usr/bin/awk" ] || ln -s gawk "$tree/usr/bin/awk"
[ -e "$tree/bin/busybox" ] || ln -s ../usr/bin/busybox "$tree/bin/busybox"
echo root:x:0:0:root:/root:/bin/sh > "$tree/etc/passwd"
echo root:x:0: > "$tree/etc/group"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_panics_has_not_ended() {
        assert!(has_ended("== older\nEND:0\n[    9.1] reboot: Power down\n"));
        assert!(!has_ended("== programs\n[    9.1] Kernel panic - not syncing\n"));
    }
}
