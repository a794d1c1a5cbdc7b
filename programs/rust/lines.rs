//! `println!` line by line, `File` unbuffered and buffered, seeks, a child, a panic at the end.
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

fn main() -> io::Result<()> {
    let mut source = File::open("in.txt")?;
    let mut target = OpenOptions::new().read(true).write(true).create(true).truncate(true).open("rust.out")?;
    let mut record = [0u8; 19];
    let mut counted = 0;
    loop {
        let n = source.read(&mut record)?;
        if n == 0 {
            break;
        }
        counted += n;
        target.write_all(&record[..n])?;
    }
    println!("{counted} {} {}", target.stream_position()?, target.metadata()?.len());
    for step in 0..1500u64 {
        let at = step * 7919 % 40000;
        target.read_exact_at(&mut record, at)?;
        if step % 3 == 0 {
            record.reverse();
            target.write_all_at(&record, at)?;
        }
    }
    target.seek(SeekFrom::End(-100))?;
    for step in 0..500 {
        write!(target, "{step},")?;
    }
    println!("{} {}", target.stream_position()?, std::fs::metadata("rust.out")?.len());
    target.set_len(45678)?;
    let mut copy = target.try_clone()?;
    copy.seek(SeekFrom::Start(10))?;
    let mut four = [0u8; 4];
    target.read_exact(&mut four)?;
    println!("{four:?} {}", copy.stream_position()?);
    let mut lines = 0;
    let mut writer = BufWriter::with_capacity(100, File::create("lines.out")?);
    for line in BufReader::with_capacity(64, File::open("in.txt")?).lines() {
        writeln!(writer, "{}", line?.len())?;
        lines += 1;
    }
    writer.flush()?;
    println!("{}", io::copy(&mut File::open("rust.out")?, &mut File::create("copied.out")?)?);
    for number in 0..3000 {
        println!("line {number} of {lines}");
    }
    let status = std::process::Command::new("wc").args(["-c", "rust.out"]).status()?;
    eprintln!("{status}");
    let threads: Vec<_> = (0..3)
        .map(|me| {
            std::thread::spawn(move || {
                let file = OpenOptions::new().write(true).create(true).truncate(false).open("threads.out").unwrap();
                for i in 0..500u64 {
                    file.write_all_at(format!("{:07}\n", i * 3 + me).as_bytes(), (i * 3 + me) * 8).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    File::open("missing").map(drop)
}
