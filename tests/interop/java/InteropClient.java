import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.time.Duration;
import java.util.*;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

/**
 * Kafka's own Java clients as one client of the interop table: the operation is the argument, JSON goes in and out.
 * Compiles with 3.9 and 4.x; share groups, which 3.9 does not have, are in ShareOperations and found by name.
 */
public final class InteropClient {
    interface Operation {
        Object run(JsonNode arguments) throws Exception;
    }

    static final class Skipped extends Exception {
        Skipped(String why) {
            super(why);
        }
    }

    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration POLL = Duration.ofMillis(200);
    static final long PATIENCE_MS = 60_000;
    static final int MAX_MESSAGE_BYTES = 1_000_000;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints must not mix with the answer
        Map<String, Operation> operations = Map.of(
            "produce", InteropClient::produce, "consume", InteropClient::consume, "transactions", InteropClient::transactions,
            "rebalance", InteropClient::rebalance, "admin", InteropClient::admin,
            "roundtrip_sasl_tls", InteropClient::roundtripSaslTls, "warm_up", InteropClient::warmUp, "share", a -> ofShareGroups("share", a),
            "share_offsets", a -> ofShareGroups("shareOffsets", a));
        Object answer;
        try {
            answer = operations.get(args[0]).run(JSON.readTree(System.in));
        } catch (Skipped why) {
            answer = Map.of("skipped", why.getMessage());
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            System.err.println(thrown); // the last line is the one that people see
            System.exit(1);
            return;
        }
        answers.println(JSON.writeValueAsString(answer));
        answers.flush();
        System.exit(0);
    }

    /** Loads the classes that every operation needs, for the archive with which the JVM then starts faster. */
    static Object warmUp(JsonNode a) {
        Map<String, Object> properties = servers(a);
        Map<String, Object> group = group(properties, a);
        try (Producer<byte[], byte[]> producer = producer(properties); Consumer<byte[], byte[]> consumer = consumer(group);
             Admin admin = Admin.create(properties)) {
            consumer.subscribe(List.of("none"));
            consumer.poll(POLL);
            return Map.of("metrics", producer.metrics().size() + admin.metrics().size());
        }
    }

    static Object produce(JsonNode a) throws Exception {
        return Map.of("sent", send(servers(a), a));
    }

    static Object consume(JsonNode a) {
        return Map.of("records", read(servers(a), a, a.path("count").asInt()));
    }

    static Object transactions(JsonNode a) throws Exception {
        Map<String, Object> properties = servers(a);
        properties.put("transactional.id", a.path("transactional_id").asText());
        try (Producer<byte[], byte[]> producer = producer(properties)) {
            producer.initTransactions();
            producer.beginTransaction();
            put(producer, a.path("topic").asText(), a.path("aborted"));
            producer.flush(); // an abort would drop what was not sent yet
            producer.abortTransaction();
            producer.beginTransaction();
            put(producer, a.path("topic").asText(), a.path("committed"));
            producer.commitTransaction();
        }
        return Map.of("committed", a.path("committed").size());
    }

    static Object rebalance(JsonNode a) {
        Map<String, Object> properties = group(servers(a), a);
        Set<Integer> everything = new TreeSet<>(IntStream.range(0, a.path("partitions").asInt()).boxed().toList());
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (Consumer<byte[], byte[]> first = consumer(properties); Consumer<byte[], byte[]> second = consumer(properties)) {
            first.subscribe(List.of(a.path("topic").asText()));
            second.subscribe(List.of(a.path("topic").asText()));
            Set<Integer> ours = new TreeSet<>(), theirs = new TreeSet<>(), union = new TreeSet<>();
            while (ours.isEmpty() || theirs.isEmpty() || !union.equals(everything) || ours.size() + theirs.size() > union.size()) {
                check(deadline, "not shared out: " + ours + ", " + theirs);
                ours = held(first);
                theirs = held(second);
                union = new TreeSet<>(ours);
                union.addAll(theirs);
            }
            second.close();
            Set<Integer> after = held(first);
            while (!after.equals(everything)) {
                check(deadline, "not taken over: " + after);
                after = held(first);
            }
            return Map.of("first", ours, "second", theirs, "after", after);
        }
    }

    static Object admin(JsonNode a) throws Exception {
        String topic = a.path("topic").asText();
        int partitions = a.path("partitions").asInt();
        try (Admin admin = Admin.create(servers(a))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) a.path("replication").asInt()))).all().get();
            List<Object> nodes = new ArrayList<>();
            for (var node : admin.describeCluster().nodes().get())
                nodes.add(Map.of("id", node.id(), "host", node.host(), "port", node.port()));
            Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
            for (int partition = 0; partition < partitions; partition++)
                latest.put(new TopicPartition(topic, partition), OffsetSpec.latest());
            Map<String, Long> offsets = new HashMap<>();
            // waits for the leaders by itself
            admin.listOffsets(latest).all().get().forEach((partition, at) ->
                offsets.put(String.valueOf(partition.partition()), at.offset()));
            int described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            admin.listConsumerGroups().all().get();
            admin.describeConfigs(List.of(new org.apache.kafka.common.config.ConfigResource(
                org.apache.kafka.common.config.ConfigResource.Type.TOPIC, topic))).all().get();
            admin.deleteTopics(List.of(topic)).all().get();
            return Map.of("nodes", nodes, "partitions", described, "offsets", offsets);
        }
    }

    static Object roundtripSaslTls(JsonNode a) throws Exception {
        Map<String, Object> properties = servers(a);
        properties.put("security.protocol", "SASL_SSL");
        properties.put("ssl.truststore.type", "PEM");
        properties.put("ssl.truststore.location", a.path("ca_file").asText());
        properties.put("sasl.mechanism", a.path("mechanism").asText());
        properties.put("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required username=\""
            + a.path("user").asText() + "\" password=\"" + a.path("password").asText() + "\";");
        send(properties, a);
        return Map.of("records", read(properties, a, a.path("records").size()));
    }

    static Object ofShareGroups(String name, JsonNode a) throws Exception {
        try {
            return Class.forName("ShareOperations").getDeclaredMethod(name, JsonNode.class).invoke(null, a);
        } catch (ClassNotFoundException absent) {
            throw new Skipped("the library has no share consumer");
        } catch (java.lang.reflect.InvocationTargetException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        }
    }

    // -- parts --------------------------------------------------------------------------------------------------------

    static Map<String, Object> servers(JsonNode a) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", a.path("bootstrap").asText());
        return properties;
    }

    static Map<String, Object> group(Map<String, Object> properties, JsonNode a) {
        Map<String, Object> all = new HashMap<>(properties);
        String protocol = a.path("protocol").asText("classic");
        all.put("group.id", a.path("group").asText());
        all.put("group.protocol", protocol);
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        all.put("isolation.level", a.path("isolation").asText("read_uncommitted"));
        if (protocol.equals("classic")) all.put("heartbeat.interval.ms", "500"); // so that a member hears soon of another
        return all;
    }

    static Producer<byte[], byte[]> producer(Map<String, Object> properties) {
        Map<String, Object> all = new HashMap<>(properties);
        all.put("max.request.size", MAX_MESSAGE_BYTES);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Consumer<byte[], byte[]> consumer(Map<String, Object> properties) {
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static int send(Map<String, Object> properties, JsonNode a) throws Exception {
        Map<String, Object> all = new HashMap<>(properties);
        all.put("acks", a.path("acks").asText("all"));
        all.put("compression.type", a.path("codec").asText("none"));
        all.put("enable.idempotence", a.path("acks").asText("all").equals("all"));
        try (Producer<byte[], byte[]> producer = producer(all)) {
            put(producer, a.path("topic").asText(), a.path("records"));
        }
        return a.path("records").size();
    }

    static void put(Producer<byte[], byte[]> producer, String topic, JsonNode rows) throws Exception {
        List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode row : rows) {
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, row.path("partition").asInt(), bytes(row.path("key")), bytes(row.path("value")));
            for (JsonNode header : row.path("headers")) record.headers().add(header.get(0).asText(), bytes(header.get(1)));
            sent.add(producer.send(record));
        }
        producer.flush();
        for (var each : sent) each.get();
    }

    static List<Object> read(Map<String, Object> properties, JsonNode a, int count) {
        List<Object> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + 1000L * a.path("timeout_s").asInt(60);
        try (Consumer<byte[], byte[]> consumer = consumer(group(properties, a))) {
            consumer.subscribe(List.of(a.path("topic").asText()));
            while (found.size() < count && System.currentTimeMillis() < deadline)
                consumer.poll(POLL).forEach(record -> found.add(row(record)));
            if (!found.isEmpty()) consumer.commitSync();
        }
        return found;
    }

    static Map<String, Object> row(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("partition", record.partition());
        row.put("offset", record.offset());
        row.put("key", record.key());
        row.put("value", record.value());
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) headers.add(Arrays.asList(header.key(), header.value()));
        row.put("headers", headers);
        return row;
    }

    static Set<Integer> held(Consumer<byte[], byte[]> consumer) {
        consumer.poll(POLL);
        Set<Integer> partitions = new TreeSet<>();
        for (TopicPartition partition : consumer.assignment()) partitions.add(partition.partition());
        return partitions;
    }

    static void check(long deadline, String otherwise) {
        if (System.currentTimeMillis() > deadline) throw new IllegalStateException(otherwise);
    }

    static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }
}
