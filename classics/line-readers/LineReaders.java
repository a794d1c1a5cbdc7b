import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Reads every line of a file in one of six ways, each faster than the one before:
 *
 * <p>{@code java LineReaders unbuffered|buffered|buffered-8k|reader|own|own-converter FILE TIMES}
 *
 * <p>A line ends with LF, CR or CRLF, all three in one file if need be. Prints how many lines there
 * were and a sum in which each line's place, length, first and last character count: those of the
 * last time, after it has seen that all times gave the same.
 */
public final class LineReaders {
    private static final int BUFFER_SIZE = 8192;

    private long lines;
    private long sum;

    public static void main(String[] arguments) throws IOException {
        String way = arguments[0];
        String file = arguments[1];
        int times = Integer.parseInt(arguments[2]);
        Samples samples = new Samples(times);
        LineReaders last = null;
        for (int i = 0; i < times; i++) {
            LineReaders seen = new LineReaders();
            samples.start();
            seen.read(way, file);
            samples.stop();
            if (last != null && (last.lines != seen.lines || last.sum != seen.sum)) {
                throw new AssertionError("other lines than the time before");
            }
            last = seen;
        }
        System.out.printf("lines %d%nsum %016x%n", last.lines, last.sum);
        samples.report();
    }

    private void read(String way, String file) throws IOException {
        try (InputStream input = new FileInputStream(file)) {
            switch (way) {
                case "unbuffered" -> readData(new DataInputStream(input));
                case "buffered" ->
                    readData(new DataInputStream(new BufferedInputStream(input, 2048)));
                case "buffered-8k" ->
                    readData(new DataInputStream(new BufferedInputStream(input, BUFFER_SIZE)));
                case "reader" -> {
                    BufferedReader reader = new BufferedReader(latin1(input));
                    for (String line; (line = reader.readLine()) != null; ) {
                        see(line);
                    }
                }
                case "own" -> readOwn(latin1(input)::read);
                case "own-converter" -> readOwn(new Converter(input));
                default -> throw new IllegalArgumentException(way);
            }
        }
    }

    private static Reader latin1(InputStream input) {
        return new InputStreamReader(input, StandardCharsets.ISO_8859_1);
    }

    @SuppressWarnings("deprecation") // DataInputStream.readLine: where the ladder begins
    private void readData(DataInputStream input) throws IOException {
        for (String line; (line = input.readLine()) != null; ) {
            see(line);
        }
    }

    private void see(String line) {
        int length = line.length();
        add(length, length == 0 ? 0 : line.charAt(0), length == 0 ? 0 : line.charAt(length - 1));
    }

    private void see(char[] characters, int start, int end) {
        boolean isEmpty = start == end;
        add(end - start, isEmpty ? 0 : characters[start], isEmpty ? 0 : characters[end - 1]);
    }

    private void add(long length, long first, long last) {
        lines++;
        sum += lines * (length + (first << 32) + (last << 40));
    }

    /** Where characters come from. */
    private interface Source {
        /** Reads at least one; how many, or -1 at the end. */
        int read(char[] to, int offset, int length) throws IOException;
    }

    /** Makes characters of Latin-1 itself: each byte is one. */
    private static final class Converter implements Source {
        private final InputStream input;
        private final byte[] bytes = new byte[BUFFER_SIZE];

        Converter(InputStream input) {
            this.input = input;
        }

        @Override
        public int read(char[] to, int offset, int length) throws IOException {
            int count = input.read(bytes, 0, Math.min(length, bytes.length));
            for (int i = 0; i < count; i++) {
                to[offset + i] = (char) (bytes[i] & 0xFF);
            }
            return count;
        }
    }

    /** Finds lines in an array of characters, and makes no String. */
    private void readOwn(Source source) throws IOException {
        char[] buffer = new char[BUFFER_SIZE];
        int start = 0; // of the line that is not complete
        int end = 0; // of what was read
        boolean afterReturn = false; // an LF that comes next ends nothing
        while (true) {
            System.arraycopy(buffer, start, buffer, 0, end - start);
            end -= start;
            start = 0;
            if (end == buffer.length) {
                buffer = Arrays.copyOf(buffer, 2 * buffer.length);
            }
            int count = source.read(buffer, end, buffer.length - end);
            if (count < 0) {
                break;
            }
            int at = end;
            end += count;
            if (afterReturn && buffer[at] == '\n') {
                start = ++at;
            }
            afterReturn = false;
            for (; at < end; at++) {
                char character = buffer[at];
                if (character != '\n' && character != '\r') {
                    continue;
                }
                see(buffer, start, at);
                if (character == '\r') {
                    afterReturn = at + 1 == end;
                    at += at + 1 < end && buffer[at + 1] == '\n' ? 1 : 0;
                }
                start = at + 1;
            }
        }
        if (start < end) {
            see(buffer, start, end);
        }
    }
}
