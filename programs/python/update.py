"""r+ updates with seek, tell and truncate mixed, on text, buffered and raw files."""
import os
import random

numbers = random.Random(20)
said = []
for mode, buffering in (("r+b", 0), ("r+b", -1), ("r+b", 64), ("r+", -1), ("r+", 1), ("a+b", 0), ("w+b", 0)):
    text = "b" not in mode
    with open("update.txt", mode, buffering=buffering) as file:
        for step in range(1500):
            kind = numbers.randrange(12)
            if kind < 4:
                got = file.read(numbers.randrange(1, 50))
                said.append(hash(len(got)))
            elif kind < 8:
                data = "x%05d\n" % step
                file.write(data if text else data.encode())
            elif kind == 8:
                file.seek(numbers.randrange(30000))
            elif kind == 9:
                said.append(file.tell())
            elif kind == 10 and step % 10 == 0:
                said.append(file.truncate(numbers.randrange(20000, 40000)))
            else:
                file.flush()
                said.append(os.stat("update.txt").st_size)
    said.append(os.path.getsize("update.txt"))
    for number in range(20):
        with open("update.txt", "ab") as file:
            file.write(b"between modes\n" * 100)
print(said)
