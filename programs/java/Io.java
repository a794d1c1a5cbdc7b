import java.io.*;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.util.zip.CRC32;

/** Java's unbuffered ways to files, one after the other; says a checksum of what each saw. */
public class Io {
    public static void main(String[] args) throws Exception {
        StringBuilder said = new StringBuilder();
        switch (args[0]) {
            case "stream": stream(said); break;
            case "random": random(said); break;
            case "channel": channel(said); break;
            case "lines": lines(said); break;
            case "nio": nio(said); break;
            default: throw new IllegalArgumentException(args[0]);
        }
        System.out.print(said);
    }

    static void stream(StringBuilder said) throws IOException {
        CRC32 sum = new CRC32();
        try (FileInputStream in = new FileInputStream("in.txt");
             FileOutputStream out = new FileOutputStream("stream.out")) {
            byte[] record = new byte[37];
            int n;
            while ((n = in.read(record)) > 0) {
                sum.update(record, 0, n);
                out.write(record, 0, n);
                if (n == 37) in.skip(5);
            }
            said.append("available ").append(in.available()).append(" read ").append(in.read());
        }
        try (FileOutputStream out = new FileOutputStream("stream.out", true)) {
            for (int i = 0; i < 3000; i++) out.write(i & 0x7f);
        }
        said.append(" sum ").append(sum.getValue()).append('\n');
    }

    static void random(StringBuilder said) throws IOException {
        long total = 0;
        try (RandomAccessFile file = new RandomAccessFile("random.bin", "rw")) {
            for (int i = 0; i < 3000; i++) {
                file.writeInt(i);
                file.writeUTF("record");
            }
            long seed = 99;
            for (int i = 0; i < 3000; i++) {
                seed = (seed * 25214903917L + 11) & 0xffffffffffffL;
                file.seek((seed >> 16) % 3000 * 12);
                total += file.readInt();
                if (i % 5 == 0) {
                    file.seek(file.getFilePointer() - 4);
                    file.writeInt(-i);
                }
            }
            file.setLength(30001);
            said.append("length ").append(file.length()).append(" at ").append(file.getFilePointer());
            file.seek(40000);
            said.append(" eof ").append(file.read());
            file.write('x');
            said.append(" length ").append(file.length());
        }
        said.append(" total ").append(total).append('\n');
    }

    static void channel(StringBuilder said) throws IOException {
        CRC32 sum = new CRC32();
        try (FileChannel in = FileChannel.open(Paths.get("in.txt"), StandardOpenOption.READ);
             FileChannel out = FileChannel.open(Paths.get("channel.out"), StandardOpenOption.CREATE,
                     StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(51);
            for (int i = 0; in.read(buffer) >= 0 && i < 2000; i++) {
                buffer.flip();
                sum.update(buffer.duplicate());
                out.write(buffer);
                buffer.clear();
                if (i % 100 == 0) {
                    in.read(buffer, i * 3L);
                    buffer.flip();
                    out.write(buffer, i * 7L);
                    buffer.clear();
                }
            }
            ByteBuffer[] parts = {ByteBuffer.wrap("one ".getBytes()), ByteBuffer.wrap("two".getBytes())};
            for (int i = 0; i < 500; i++) {
                out.write(parts);
                parts[0].rewind();
                parts[1].rewind();
            }
            said.append("in ").append(in.position()).append(" out ").append(out.position());
            said.append(" moved ").append(in.transferTo(100, 5000, out));
            in.position(7);
            said.append(" moved ").append(out.transferFrom(in, 3, 4000));
            said.append(" size ").append(out.size());
            out.truncate(out.size() - 11);
            java.nio.MappedByteBuffer map = out.map(FileChannel.MapMode.READ_WRITE, 0, 4096);
            map.put(5, (byte) '!');
            ByteBuffer back = ByteBuffer.allocate(10);
            out.read(back, 0);
            said.append(" ").append(new String(back.array()));
            out.lock().release();
        }
        said.append(" sum ").append(sum.getValue()).append('\n');
    }

    @SuppressWarnings("deprecation")
    static void lines(StringBuilder said) throws IOException {
        int count = 0;
        int hash = 0;
        try (DataInputStream in = new DataInputStream(new FileInputStream("in.txt"))) {
            String line;
            while ((line = in.readLine()) != null) {
                count++;
                hash = hash * 31 + line.hashCode();
            }
        }
        try (RandomAccessFile in = new RandomAccessFile("in.txt", "r")) {
            for (int i = 0; i < 300; i++) hash += in.readLine().length();
        }
        try (PrintStream out = new PrintStream(new FileOutputStream("lines.out"), true)) {
            for (int i = 0; i < 2000; i++) out.println("line " + i);
        }
        said.append(count).append(" lines ").append(hash).append('\n');
    }

    static void nio(StringBuilder said) throws IOException, InterruptedException {
        Path folder = Files.createDirectory(Paths.get("made"));
        try (OutputStream out = Files.newOutputStream(folder.resolve("a"))) {
            for (int i = 0; i < 3000; i++) {
                out.write(("part " + i + "\n").getBytes());
                if (i == 2000) said.append("size ").append(Files.size(folder.resolve("a")));
            }
        }
        Files.move(folder.resolve("a"), folder.resolve("b"));
        Files.copy(folder.resolve("b"), folder.resolve("c"));
        said.append(" lines ").append(Files.readAllLines(folder.resolve("c")).size());
        try (FileOutputStream out = new FileOutputStream("child.in")) {
            for (int i = 0; i < 2000; i++) out.write("for the child\n".getBytes());
            Process child = new ProcessBuilder("wc", "-c", "child.in").start();
            said.append(" child ").append(new BufferedReader(new InputStreamReader(child.getInputStream())).readLine());
            said.append(" exit ").append(child.waitFor());
        }
        Thread[] threads = new Thread[4];
        for (int t = 0; t < 4; t++) {
            final int me = t;
            threads[t] = new Thread(() -> {
                try (RandomAccessFile file = new RandomAccessFile("threads.bin", "rw")) {
                    for (int i = 0; i < 500; i++) {
                        file.seek((i * 4L + me) * 8);
                        file.writeLong(i * 4L + me);
                    }
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            });
            threads[t].start();
        }
        for (Thread thread : threads) thread.join();
        said.append('\n');
        System.out.print(said);
        said.setLength(0);
        System.exit(5);
    }
}
