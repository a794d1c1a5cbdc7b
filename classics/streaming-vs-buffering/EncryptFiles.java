import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * "Encrypts" every file of a folder into another folder, as encrypt-files.c does, in the way that
 * managed languages do it: lines are strings.
 *
 * <p>{@code java EncryptFiles streaming|buffering FROM TO THREADS WORK}
 */
public final class EncryptFiles {
    /** As many bytes as characters, whatever the passes make of them. */
    private static final Charset CHARSET = StandardCharsets.ISO_8859_1;

    public static void main(String[] arguments) throws Exception {
        boolean streaming = switch (arguments[0]) {
            case "streaming" -> true;
            case "buffering" -> false;
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        Path from = Path.of(arguments[1]);
        Path to = Files.createDirectories(Path.of(arguments[2]));
        int threads = Integer.parseInt(arguments[3]);
        int work = Integer.parseInt(arguments[4]);
        List<Path> files;
        try (Stream<Path> listed = Files.list(from)) {
            files = listed.sorted().toList();
        }
        List<Exception> failures = new ArrayList<>();
        List<Thread> started = new ArrayList<>();
        for (int first = 0; first < threads; first++) {
            int mine = first;
            Thread thread = new Thread(() -> {
                try {
                    // Each thread gets its list of files at the start.
                    for (int i = mine; i < files.size(); i += threads) {
                        Path target = to.resolve(files.get(i).getFileName());
                        if (streaming) {
                            stream(files.get(i), target, work);
                        } else {
                            buffer(files.get(i), target, work);
                        }
                    }
                } catch (IOException | RuntimeException failure) {
                    synchronized (failures) {
                        failures.add(failure);
                    }
                }
            });
            thread.start();
            started.add(thread);
        }
        for (Thread thread : started) {
            thread.join();
        }
        if (!failures.isEmpty()) {
            throw failures.get(0);
        }
    }

    private static void stream(Path from, Path to, int work) throws IOException {
        try (BufferedReader reader = new BufferedReader(
                        new InputStreamReader(new FileInputStream(from.toFile()), CHARSET));
                BufferedWriter writer = new BufferedWriter(
                        new OutputStreamWriter(new FileOutputStream(to.toFile()), CHARSET))) {
            for (String line; (line = reader.readLine()) != null; ) {
                writer.write(encrypt(line, work));
                writer.write('\n');
            }
        }
    }

    private static void buffer(Path from, Path to, int work) throws IOException {
        List<String> lines = Files.readAllLines(from, CHARSET);
        lines.replaceAll(line -> encrypt(line, work));
        Files.write(to, lines, CHARSET);
    }

    /** Makes the passes over one line. */
    private static String encrypt(String line, int work) {
        char[] characters = line.toCharArray();
        for (int pass = 0; pass < work; pass++) {
            for (int i = 0; i < characters.length; i++) {
                characters[i] ^= (char) (pass & 0xFF);
            }
        }
        return new String(characters);
    }
}
