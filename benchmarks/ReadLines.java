/**
 * Reads a file line by line without a buffer, as much old code does:
 * {@code java ReadLines FILE}. Prints the number of lines and a checksum.
 */
import java.io.DataInputStream;
import java.io.FileInputStream;
import java.io.IOException;

public final class ReadLines {
    @SuppressWarnings("deprecation") // DataInputStream.readLine: that is what such code calls
    public static void main(String[] arguments) throws IOException {
        long lines = 0;
        long checksum = 0;
        try (DataInputStream input = new DataInputStream(new FileInputStream(arguments[0]))) {
            for (String line; (line = input.readLine()) != null; ) {
                lines++;
                checksum = checksum * 31 + line.hashCode();
            }
        }
        System.out.printf("lines %d%nchecksum %016x%n", lines, checksum);
    }
}
