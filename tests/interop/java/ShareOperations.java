import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Share groups, for Kafka's Java clients from 4.1 on. */
final class ShareOperations {
    static Object share(JsonNode a) {
        Map<String, Object> properties = InteropClient.servers(a);
        properties.put("group.id", a.path("group").asText());
        List<Object> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + 1000L * a.path("timeout_s").asInt();
        try (ShareConsumer<byte[], byte[]> consumer =
                 new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(a.path("topic").asText()));
            while (found.size() < a.path("count").asInt() && System.currentTimeMillis() < deadline) {
                consumer.poll(InteropClient.POLL).forEach(record -> found.add(InteropClient.row(record)));
                consumer.commitSync().forEach((partition, failure) -> failure.ifPresent(why -> { throw why; }));
            }
        }
        return Map.of("records", found);
    }

    static Object shareOffsets(JsonNode a) throws Exception {
        String group = a.path("group").asText();
        try (Admin admin = Admin.create(InteropClient.servers(a))) {
            Map<String, Object> lags = new HashMap<>();
            admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).all().get().get(group)
                .forEach((partition, offset) -> lags.put(
                    String.valueOf(partition.partition()), offset == null ? null : offset.lag().orElse(null)));
            return Map.of("lags", lags);
        }
    }
}
