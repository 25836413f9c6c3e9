import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.debezium.DebeziumJsonDeserializationSchema;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;
import org.apache.flink.util.Collector;

/** Rows that Flink's format debezium-json makes of messages, a line for each: MESSAGES HAVE_SCHEMAS. */
public final class FlinkRows {
    private static final DataType ROW = DataTypes.ROW(
            DataTypes.FIELD("id", DataTypes.INT()),
            DataTypes.FIELD("name", DataTypes.STRING()),
            DataTypes.FIELD("stock", DataTypes.INT()));

    private FlinkRows() {
    }

    public static void main(String[] arguments) throws Exception {
        DebeziumJsonDeserializationSchema format = new DebeziumJsonDeserializationSchema(
                ROW,
                List.of(),
                TypeInformation.of(RowData.class),
                Boolean.parseBoolean(arguments[1]),
                false,
                TimestampFormat.ISO_8601);
        format.open(null);
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            byte[] value = line.equals("null") ? null : line.getBytes(StandardCharsets.UTF_8);
            format.deserialize(value, new Printer());
        }
    }

    private static final class Printer implements Collector<RowData> {
        @Override
        public void collect(RowData row) {
            String stock = row.isNullAt(2) ? "null" : String.valueOf(row.getInt(2));
            System.out.println(row.getRowKind().shortString() + " " + row.getInt(0) + " " + row.getString(1) + " " + stock);
        }

        @Override
        public void close() {
        }
    }
}
