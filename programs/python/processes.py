"""Children while files are open: subprocess, fork, multiprocessing."""
import multiprocessing
import os
import subprocess
import sys


def part(number):
    with open("pool.%d" % number, "wb", buffering=0) as file:
        for step in range(1000):
            file.write(b"%d %d\n" % (number, step))
    with open("in.txt", "rb", buffering=0) as file:
        return number, sum(len(file.read(17)) for _ in range(500))


def main():
    said = []
    with open("shared.out", "wb", buffering=0) as file:
        for step in range(2000):
            file.write(b"parent %d\n" % step)
        subprocess.run(["sh", "-c", "wc -c < shared.out; echo child"], stdout=file, check=True)
        for step in range(1000):
            file.write(b"again %d\n" % step)
        said.append(subprocess.check_output(["tail", "-n", "1", "shared.out"]))
        child = os.fork()
        if child == 0:
            for step in range(1000):
                file.write(b"forked %d\n" % step)
            os._exit(9)
        said.append(os.waitpid(child, 0)[1])
        file.write(b"end\n")
        said.append(file.tell())
    source = open("in.txt", "rb", buffering=0)
    for step in range(300):
        source.read(10)
    said.append(subprocess.check_output(["head", "-c", "100"], stdin=source)[:10])
    said.append(source.read(10))
    # The usual way on Linux until Python 3.14.
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(3) as pool:
        said.append(sorted(pool.map(part, range(6))))
    queue = multiprocessing.Queue()
    worker = multiprocessing.Process(target=lambda: queue.put(open("said", "rb").read()))
    with open("said", "wb", buffering=0) as file:
        for step in range(1500):
            file.write(b"said before\n")
        worker.start()
        said.append(len(queue.get()))
    worker.join()
    print(said)


main()
sys.stdout.flush()
os._exit(4)
