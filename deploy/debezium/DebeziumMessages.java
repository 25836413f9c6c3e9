import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.converters.CloudEventsConverter;
import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.transforms.ExtractNewRecordState;
import io.debezium.transforms.outbox.EventRouter;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.transforms.Transformation;

/** Messages of Debezium's engine, and what its transformations make of messages: a line of JSON for each. */
public final class DebeziumMessages {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final long WAIT_SECONDS = 60;

    private final JsonConverter keys = converter(true);
    private final JsonConverter values = converter(false);

    private DebeziumMessages() {
    }

    /** stream PROPERTIES OUTPUT LAST_TOPIC, transform MESSAGES OUTPUT OUTBOX_TOPIC, or cloudevents MESSAGES OUTPUT FORM. */
    public static void main(String[] arguments) throws Exception {
        DebeziumMessages messages = new DebeziumMessages();
        Path input = Path.of(arguments[1]);
        String failure = null;
        try (BufferedWriter out = Files.newBufferedWriter(Path.of(arguments[2]))) {
            if (arguments[0].equals("stream")) {
                failure = messages.stream(input, out, arguments[3]);
            } else if (arguments[0].equals("cloudevents")) {
                messages.makeCloudEvents(input, out, arguments[3]);
            } else {
                messages.transform(input, out, arguments[3]);
            }
        }
        if (failure != null) {
            System.err.println(failure);
        }
        Runtime.getRuntime().halt(failure == null ? 0 : 1); // the engine's threads would go on
    }

    /** Writes the engine's messages until the last topic has one; returns why that did not come. */
    private String stream(Path settings, BufferedWriter out, String lastTopic) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(settings)) {
            properties.load(reader);
        }
        CountDownLatch ended = new CountDownLatch(1);
        AtomicReference<String> failure = new AtomicReference<>();
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine.create(Connect.class)
                .using(properties)
                .using((success, message, error) -> {
                    failure.set(message + ": " + error);
                    ended.countDown();
                })
                .notifying(event -> {
                    write(event.value(), out);
                    if (event.value().topic().equals(lastTopic)) {
                        ended.countDown();
                    }
                })
                .build();
        Executors.newSingleThreadExecutor().execute(engine);
        return ended.await(WAIT_SECONDS, TimeUnit.SECONDS) ? failure.get() : "the last message did not come";
    }

    /** Reads messages with schemas as Kafka Connect does, and writes what the transformations make of them. */
    private void transform(Path input, BufferedWriter out, String outboxTopic) throws IOException {
        ExtractNewRecordState<SourceRecord> state = new ExtractNewRecordState<>();
        state.configure(Map.of("add.fields", "op,table,source.ts_ms", "delete.tombstone.handling.mode", "rewrite"));
        EventRouter<SourceRecord> router = new EventRouter<>();
        router.configure(Map.of("table.expand.json.payload", "true"));
        try (BufferedReader lines = Files.newBufferedReader(input)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                SourceRecord record = record(MAPPER.readTree(line));
                write(record, out); // read and written again: nothing may be lost
                Transformation<SourceRecord> chosen = record.topic().equals(outboxTopic) ? router : state;
                SourceRecord made = chosen.apply(record);
                if (made != null) {
                    write(made, out);
                }
            }
        }
    }

    /** Reads messages with schemas, and writes the values that Debezium's converter makes of them: form is true, false, avro. */
    private void makeCloudEvents(Path input, BufferedWriter out, String form) throws IOException {
        CloudEventsConverter converter = new CloudEventsConverter(new ToldAvro());
        converter.configure(form.equals("avro") ? ToldAvro.SETTINGS : Map.of("json.schemas.enable", form), false);
        try (BufferedReader lines = Files.newBufferedReader(input)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                SourceRecord record = record(MAPPER.readTree(line));
                byte[] value = converter.fromConnectData(record.topic(), record.valueSchema(), record.value());
                ObjectNode made = MAPPER.createObjectNode();
                made.put("topic", record.topic());
                put(made, "value", value, value);
                out.write(made.toString());
                out.newLine();
            }
        }
    }

    /** In place of a converter to Avro: topic, schema and value as JSON, after as many bytes as an id has. */
    private static final class ToldAvro implements Converter {
        static final Map<String, String> SETTINGS = Map.of(
                "serializer.type", "avro", "data.serializer.type", "avro", "avro.schema.registry.url", "http://registry:8081");
        private final JsonConverter values = converter(false);

        @Override
        public void configure(Map<String, ?> settings, boolean isKey) {
        }

        @Override
        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            String told = new String(values.fromConnectData(topic, schema, value), StandardCharsets.UTF_8);
            return ("\0\0\0\0\7" + topic + "\n" + told).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public SchemaAndValue toConnectData(String topic, byte[] value) {
            throw new UnsupportedOperationException();
        }
    }

    private SourceRecord record(JsonNode line) {
        String topic = line.get("topic").asText();
        SchemaAndValue key = keys.toConnectData(topic, bytes(line.get("key")));
        SchemaAndValue value = values.toConnectData(topic, bytes(line.get("value")));
        return new SourceRecord(null, null, topic, null, key.schema(), key.value(), value.schema(), value.value());
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private void write(SourceRecord record, BufferedWriter out) {
        ObjectNode line = MAPPER.createObjectNode();
        line.put("topic", record.topic());
        String topic = record.topic();
        put(line, "key", record.key(), keys.fromConnectData(topic, record.keySchema(), record.key()));
        put(line, "value", record.value(), values.fromConnectData(topic, record.valueSchema(), record.value()));
        ArrayNode headers = line.putArray("headers");
        for (Header header : record.headers()) {
            ObjectNode node = headers.addObject();
            node.put("name", header.key());
            put(node, "value", header.value(), values.fromConnectData(topic, header.schema(), header.value()));
        }
        try {
            out.write(line.toString());
            out.newLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void put(ObjectNode node, String name, Object value, byte[] text) {
        node.put(name, value == null ? null : new String(text, StandardCharsets.UTF_8));
    }

    private static JsonConverter converter(boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "true"), isKey);
        return converter;
    }
}
