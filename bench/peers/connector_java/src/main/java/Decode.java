import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Decodes a binlog file with mysql-binlog-connector-java as often as is said, and prints what each pass found and took:
 * Decode FILE quick|full PASSES. Processor time is that of the whole virtual machine, its compiler and collector included.
 */
public final class Decode {
    private final boolean full;
    private long inserts;
    private long updates;
    private long deletes;
    private long intSum;
    private long textSize;
    private long byteSum;

    private Decode(boolean full) {
        this.full = full;
    }

    public static void main(String[] arguments) throws IOException {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int pass = 0; pass < Integer.parseInt(arguments[2]); pass++) {
            long started = System.nanoTime();
            long cpuStarted = system.getProcessCpuTime();
            Decode found = new Decode(arguments[1].equals("full"));
            found.read(new File(arguments[0]));
            double cpuSeconds = (system.getProcessCpuTime() - cpuStarted) / 1e9;
            double seconds = (System.nanoTime() - started) / 1e9;
            System.out.printf(
                "{\"inserts\":%d,\"updates\":%d,\"deletes\":%d,\"int_sum\":%d,\"text_size\":%d,\"byte_sum\":%d,"
                    + "\"seconds\":%f,\"cpu_seconds\":%f}%n",
                found.inserts, found.updates, found.deletes, found.intSum, found.textSize, found.byteSum,
                seconds, cpuSeconds);
        }
    }

    private void read(File file) throws IOException {
        try (BinaryLogFileReader reader = new BinaryLogFileReader(file)) {
            for (Event event; (event = reader.readEvent()) != null; ) {
                EventData data = event.getData();
                if (data instanceof WriteRowsEventData) {
                    for (Serializable[] row : ((WriteRowsEventData) data).getRows()) {
                        inserts++;
                        image(row);
                    }
                } else if (data instanceof UpdateRowsEventData) {
                    for (Map.Entry<Serializable[], Serializable[]> row : ((UpdateRowsEventData) data).getRows()) {
                        updates++;
                        image(row.getKey());
                        image(row.getValue());
                    }
                } else if (data instanceof DeleteRowsEventData) {
                    for (Serializable[] row : ((DeleteRowsEventData) data).getRows()) {
                        deletes++;
                        image(row);
                    }
                }
            }
        }
    }

    private void image(Serializable[] row) {
        for (Serializable value : row) {
            if (value instanceof Integer) {
                intSum += (Integer) value;
            } else if (value instanceof String) {
                text((String) value);
            } else {
                throw new IllegalStateException("a value of " + value.getClass());
            }
        }
    }

    private void text(String value) {
        textSize += value.length(); // the workload's texts are ASCII
        if (full) {
            for (byte one : value.getBytes(StandardCharsets.UTF_8)) {
                byteSum += one;
            }
        }
    }
}
