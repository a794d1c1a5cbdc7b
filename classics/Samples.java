import java.io.FileWriter;
import java.io.IOException;
import java.io.Writer;

/**
 * How long something took, again and again within one process. An experiment that wants to know
 * names a descriptor in SWEETSPOT_SAMPLES_FD and gets one line of JSON; standard output stays the same
 * in every run.
 */
final class Samples {
    private final double[] milliseconds;
    private int count;
    private long started;

    Samples(int countMax) {
        milliseconds = new double[countMax];
    }

    void start() {
        started = System.nanoTime();
    }

    void stop() {
        milliseconds[count++] = (System.nanoTime() - started) / 1e6;
    }

    void report() throws IOException {
        String descriptor = System.getenv("SWEETSPOT_SAMPLES_FD");
        if (descriptor == null) {
            return;
        }
        StringBuilder line = new StringBuilder("{\"unit\": \"ms\", \"samples\": [");
        for (int i = 0; i < count; i++) {
            line.append(i == 0 ? "" : ", ").append(milliseconds[i]);
        }
        try (Writer writer = new FileWriter("/dev/fd/" + descriptor)) {
            writer.write(line.append("]}\n").toString());
        }
    }
}
