import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import org.apache.commons.io.IOUtils;

/**
 * Does one thing with a file many times, with the Apache Commons IO that is on the class path, and
 * reports how long each time took:
 *
 * <p>{@code java CopyPercentiles copy|contentEquals default|BUFFER_BYTES TIMES FILE}
 *
 * <p>{@code copy} copies the file to a sink that keeps nothing, with the library's own buffer or one
 * of so many bytes; {@code contentEquals} compares two streams of the file. Afterwards it copies once
 * more, to a sum that it prints: the bytes must be right, and adding them up would outweigh the copy.
 */
public final class CopyPercentiles {
    public static void main(String[] arguments) throws IOException {
        String operation = arguments[0];
        String buffer = arguments[1];
        int times = Integer.parseInt(arguments[2]);
        String file = arguments[3];
        Samples samples = new Samples(times);
        long done = 0;
        for (int i = 0; i < times; i++) {
            samples.start();
            done += switch (operation) {
                case "copy" -> copy(file, buffer, OutputStream.nullOutputStream());
                case "contentEquals" -> contentEquals(file);
                default -> throw new IllegalArgumentException(operation);
            };
            samples.stop();
        }
        Sum sum = new Sum();
        copy(file, buffer, sum);
        System.out.printf("%s %d%nsum %08x%n", operation, done, sum.value);
        samples.report();
    }

    private static long copy(String file, String buffer, OutputStream sink) throws IOException {
        try (InputStream input = new FileInputStream(file)) {
            return buffer.equals("default")
                    ? IOUtils.copyLarge(input, sink)
                    : IOUtils.copyLarge(input, sink, new byte[Integer.parseInt(buffer)]);
        }
    }

    private static long contentEquals(String file) throws IOException {
        try (InputStream one = new FileInputStream(file);
                InputStream other = new FileInputStream(file)) {
            return IOUtils.contentEquals(one, other) ? 1 : 0;
        }
    }

    /** A sum of all bytes in their order, as {@code Arrays.hashCode} adds them up. */
    private static final class Sum extends OutputStream {
        private int value;

        @Override
        public void write(int b) {
            value = value * 31 + (b & 0xFF);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            for (int i = offset; i < offset + length; i++) {
                value = value * 31 + (bytes[i] & 0xFF);
            }
        }
    }
}
