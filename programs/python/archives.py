"""The standard library's own users of files: tarfile, zipfile, gzip, shelve, mmap, tempfile, sqlite3."""
import gzip
import io
import mmap
import os
import sqlite3
import tarfile
import tempfile
import zipfile

data = open("in.txt", "rb").read()
with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for number in range(40):
        info = zipfile.ZipInfo("part%d" % number)
        archive.writestr(info, data[number * 100:number * 100 + 2000])
with zipfile.ZipFile("a.zip", "a") as archive:
    archive.writestr(zipfile.ZipInfo("later"), b"later")
with zipfile.ZipFile("a.zip") as archive:
    print(archive.testzip(), sum(len(archive.read(name)) for name in archive.namelist()))
with tarfile.open("a.tar", "w", bufsize=512) as archive:
    for number in range(50):
        info = tarfile.TarInfo("t%d" % number)
        info.size = 700
        archive.addfile(info, io.BytesIO(data[number:number + 700]))
with tarfile.open("a.tar") as archive:
    print(len(archive.getnames()), archive.extractfile("t7").read()[:20])
with gzip.GzipFile("a.gz", "wb", mtime=0) as file:
    for start in range(0, len(data), 100):
        file.write(data[start:start + 100])
print(gzip.open("a.gz").read() == data)
with open("mapped", "w+b", buffering=0) as file:
    for number in range(2000):
        file.write(b"%07d\n" % number)
    with mmap.mmap(file.fileno(), 0) as view:
        view[8:16] = b"MAPPED!\n"
        file.seek(8)
        print(file.read(8), view[:8])
        file.seek(80)
        file.write(b"WRITTEN")
        print(view[80:87])
with tempfile.TemporaryFile(buffering=0) as file:
    for number in range(1000):
        file.write(b"temporary")
    file.seek(0)
    print(len(file.read()), file.read(1))
base = sqlite3.connect("a.db")
base.execute("create table t (a integer primary key, b text)")
for number in range(300):
    base.execute("insert into t (b) values (?)", ("x" * number,))
base.commit()
print(base.execute("select sum(length(b)) from t").fetchone(), base.execute("pragma integrity_check").fetchone())
base.close()
os.remove("a.db")
