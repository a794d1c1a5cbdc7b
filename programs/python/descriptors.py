"""os.read, os.write, os.lseek, os.pread and their relatives on plain descriptors."""
import errno
import os
import random

numbers = random.Random(7)
said = []
fd = os.open("in.txt", os.O_RDONLY)
out = os.open("os.out", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
while data := os.read(fd, 41):
    os.write(out, data)
said.append((os.lseek(fd, 0, os.SEEK_CUR), os.lseek(out, 0, os.SEEK_CUR), os.fstat(out).st_size))
for step in range(2000):
    at = numbers.randrange(50000)
    said.append(os.pread(out, 8, at)) if step % 100 == 0 else os.pread(out, 8, at)
    if step % 3 == 0:
        os.pwrite(out, b"[%06d]" % step, at)
buffers = [bytearray(5), bytearray(9)]
os.lseek(out, 100, os.SEEK_SET)
for step in range(500):
    os.readv(out, buffers)
    os.writev(out, [b"a", b"", b"bcd"])
said.append((bytes(buffers[0]), bytes(buffers[1]), os.lseek(out, 0, os.SEEK_CUR)))
copy = os.dup(out)
for step in range(600):
    os.write(out if step % 2 else copy, b"%03d," % step)
said.append((os.lseek(out, 0, 1), os.lseek(copy, 0, 1)))
os.ftruncate(copy, 12345)
said.append(os.fstat(out).st_size)
os.close(out)
os.write(copy, b"after")
os.rename("os.out", "renamed.out")
os.write(copy, b"renamed")
said.append(os.stat("renamed.out").st_size)
os.unlink("renamed.out")
os.lseek(copy, 0, 0)
said.append(os.read(copy, 20))
os.link("/proc/self/fd/%d" % fd, "linked", follow_symlinks=True) if False else None
for call in (
    lambda: os.read(99, 1),
    lambda: os.write(fd, b"x"),
    lambda: os.lseek(fd, -1, 0),
    lambda: os.read(os.open(".", os.O_RDONLY), 1),
    lambda: os.pread(fd, 1, -1),
    lambda: os.ftruncate(fd, 0),
):
    try:
        said.append(call())
    except OSError as error:
        said.append(errno.errorcode[error.errno])
os.sendfile(copy, fd, 0, 5000)
said.append((os.lseek(copy, 0, 1), os.lseek(fd, 0, 1)))
os.posix_fallocate(copy, 0, 99999)
said.append(os.fstat(copy).st_size)
print(said)
