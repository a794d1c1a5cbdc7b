//! What the tests of several modules need: contents, places to put them, pipes.

use crate::Input;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// A file in a folder of its own.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new(content: &[u8]) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { folder };
        std::fs::write(place.path("file"), content).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn input(&self) -> Input {
        Input::path(self.path("file"))
    }

    /// What is in the folder besides the file.
    pub fn others(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "file").collect();
        names.sort();
        names
    }

    /// Makes the file that long, in another thread.
    pub fn change_len(&self, len: u64) -> JoinHandle<()> {
        let path = self.path("file");
        let changer = std::thread::spawn(move || {
            File::options().write(true).open(path).unwrap().set_len(len).unwrap();
        });
        // Time to get through, where nothing holds it.
        for _ in 0..50 {
            if changer.is_finished() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        changer
    }
}

/// A pipe that `content` comes out of, byte by byte at first.
pub fn pipe(content: &[u8]) -> Input {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let content = content.to_vec();
    std::thread::spawn(move || {
        let (first, rest) = content.split_at(content.len().min(5));
        for byte in first {
            let _ = writer.write_all(&[*byte]);
            std::thread::yield_now();
        }
        let _ = writer.write_all(rest);
    });
    Input::file("a pipe", File::from(std::os::fd::OwnedFd::from(reader)))
}

/// Contents with everything that lines may have.
pub fn contents() -> Vec<Vec<u8>> {
    let mixed: Vec<u8> = (0..40u32)
        .flat_map(|number| {
            let end: &[u8] = [&b"\n"[..], b"\r", b"\r\n", b"\n\r", b"\r\r\n"][number as usize % 5];
            let line = vec![b'a' + (number % 26) as u8; number as usize * 7 % 23];
            [&line[..], end].concat()
        })
        .collect();
    let accented: Vec<u8> =
        (0..300u32).map(|n| [b'\n', 0xE9, b'x', 0xC3, 0xA9][n as usize % 5]).collect();
    vec![
        Vec::new(),
        b"\r".to_vec(),
        b"one\ntwo\r\nthree\rfour".to_vec(),
        b"\r\n".repeat(100),
        b"0123456789abc\n".repeat(30),
        [&mixed[..], b"end"].concat(),
        accented,
    ]
}

/// The buffers that everything is tried with, in bytes.
pub fn buffers(content: &[u8]) -> impl Iterator<Item = u32> + use<> {
    let len = content.len() as u32;
    (1..=70).chain([len, len + 1, 4096, 65536]).filter(|&bytes| bytes > 0)
}
