using System.IO;

/// Copies records of 200 bytes: RecordCopy IN OUT. A buffer of one byte is none.
class RecordCopy {
    static void Main(string[] names) {
        byte[] record = new byte[200];
        using (var input = new FileStream(names[0], FileMode.Open, FileAccess.Read, FileShare.Read, 1))
        using (var output = new FileStream(names[1], FileMode.Create, FileAccess.Write, FileShare.Read, 1)) {
            for (int length; (length = input.Read(record, 0, 200)) > 0; ) {
                output.Write(record, 0, length);
            }
        }
    }
}
