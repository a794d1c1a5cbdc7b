import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;

/** Copies records of 200 bytes: RecordCopy stream|random IN OUT. */
class RecordCopy {
    public static void main(String[] arguments) throws IOException {
        byte[] record = new byte[200];
        if (arguments[0].equals("stream")) {
            try (FileInputStream input = new FileInputStream(arguments[1]);
                    FileOutputStream output = new FileOutputStream(arguments[2])) {
                for (int length; (length = input.read(record)) > 0; ) {
                    output.write(record, 0, length);
                }
            }
        } else {
            try (RandomAccessFile input = new RandomAccessFile(arguments[1], "r");
                    RandomAccessFile output = new RandomAccessFile(arguments[2], "rw")) {
                for (int length; (length = input.read(record)) > 0; ) {
                    output.write(record, 0, length);
                }
            }
        }
    }
}
