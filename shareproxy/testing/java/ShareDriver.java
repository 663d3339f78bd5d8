import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/**
 * Kafka's Java clients behind one line of JSON per command and per answer (driver.py is the other end).
 *
 * A command is {"op": name, "client": {client properties}, ...arguments}; an answer is {"ok": value} or
 * {"error": {"type": exception class, "message": text}}. Standard output carries answers only.
 * Ends when its input does.
 */
public final class ShareDriver {
    interface Op {
        Object run(JsonNode command) throws Exception;
    }

    /** A share consumer that stays open between commands, with the records it got and did not acknowledge yet. */
    static final class OpenConsumer {
        final KafkaShareConsumer<byte[], String> consumer;
        final Map<String, ConsumerRecord<byte[], String>> held = new LinkedHashMap<>();

        OpenConsumer(KafkaShareConsumer<byte[], String> consumer) {
            this.consumer = consumer;
        }
    }

    static final ObjectMapper JSON = new ObjectMapper();
    static final Set<TransactionState> COMPLETE = Set.of(TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT);
    static final Duration CLOSE = Duration.ofSeconds(10);

    final Map<String, Op> ops = new HashMap<>();
    final Map<Map<String, Object>, Admin> admins = new HashMap<>();
    final Map<Map<String, Object>, Producer<byte[], String>> producers = new HashMap<>();
    final Map<String, Producer<byte[], String>> transactions = new HashMap<>();
    final Map<String, OpenConsumer> consumers = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints must not mix with the answers
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(lines), "commands");
        reader.setDaemon(true);
        reader.start();
        ShareDriver driver = new ShareDriver();
        while (true) {
            answers.println(JSON.writeValueAsString(driver.answer(JSON.readTree(lines.take()))));
            answers.flush();
        }
    }

    static void read(BlockingQueue<String> lines) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) lines.put(line);
        } catch (Exception e) {
            e.printStackTrace();
        }
        Runtime.getRuntime().halt(0); // the other end is gone: nobody waits for an orderly end, even in mid-command
    }

    Map<String, Object> answer(JsonNode command) {
        try {
            Op op = ops.get(command.path("op").asText());
            if (op == null) throw new IllegalArgumentException("unknown op " + command.path("op"));
            return Collections.singletonMap("ok", op.run(command));
        } catch (Throwable thrown) {
            Throwable cause = thrown instanceof ExecutionException && thrown.getCause() != null ? thrown.getCause() : thrown;
            return Map.of("error", Map.of(
                "type", cause.getClass().getSimpleName(), "message", String.valueOf(cause.getMessage())));
        }
    }

    ShareDriver() {
        ops.put("create_topic", this::createTopic);
        ops.put("delete_topic", c -> admin(c).deleteTopics(List.of(text(c, "topic"))).all().get());
        ops.put("add_partitions", this::addPartitions);
        ops.put("describe_topic", c -> describeTopic(c, text(c, "topic")));
        ops.put("produce", this::produce);
        ops.put("begin_transaction", this::beginTransaction);
        ops.put("end_transaction", this::endTransaction);
        ops.put("delete_records", c -> admin(c).deleteRecords(Map.of(partition(c),
            RecordsToDelete.beforeOffset(c.path("before_offset").asLong()))).lowWatermarks().get(partition(c)).get().lowWatermark());
        ops.put("list_offsets", this::listOffsets);
        ops.put("set_group_config", this::setGroupConfig);
        ops.put("open_consumer", this::openConsumer);
        ops.put("poll", this::poll);
        ops.put("acknowledge", c -> acknowledge(consumer(c), c, List.copyOf(consumer(c).held.values())));
        ops.put("close_consumer", this::closeConsumer);
        ops.put("consume", this::consume);
        ops.put("list_groups", this::listGroups);
        ops.put("describe_group", this::describeGroup);
        ops.put("list_share_group_offsets", this::listShareGroupOffsets);
        ops.put("alter_offsets", this::alterOffsets);
        ops.put("delete_offsets", c -> admin(c).deleteShareGroupOffsets(text(c, "group"), Set.copyOf(texts(c, "topics"))).all().get());
        ops.put("delete_group", c -> admin(c).deleteShareGroups(List.of(text(c, "group"))).all().get());
        ops.put("add_acl", this::addAcl);
        ops.put("remove_acl", this::removeAcl);
        ops.put("create_scram_user", this::createScramUser);
        ops.put("describe_cluster", this::describeCluster);
        ops.put("close", this::close);
    }

    // -- topics and records -------------------------------------------------------------------------------------------

    Object createTopic(JsonNode c) throws Exception {
        int partitions = c.path("partitions").asInt(1);
        NewTopic topic = new NewTopic(text(c, "topic"), partitions, (short) c.path("replication").asInt(1));
        admin(c).createTopics(List.of(topic.configs(stringMap(c.path("configs"))))).all().get();
        return awaitLeaders(c, partitions);
    }

    Object addPartitions(JsonNode c) throws Exception {
        int total = c.path("total").asInt();
        admin(c).createPartitions(Map.of(text(c, "topic"), NewPartitions.increaseTo(total))).all().get();
        return awaitLeaders(c, total);
    }

    /** A created topic is usable only when the brokers have heard of it and of a leader for each partition. */
    Object awaitLeaders(JsonNode c, int partitions) throws Exception {
        // What was seen is returned: asked once more, another broker may not have heard of the topic yet.
        AtomicReference<Map<String, Object>> seen = new AtomicReference<>();
        await("topic " + text(c, "topic"), () -> {
            try {
                seen.set(describeTopic(c, text(c, "topic")));
                List<?> rows = (List<?>) seen.get().get("partitions");
                return rows.size() == partitions && rows.stream().noneMatch(row -> ((Map<?, ?>) row).get("leader") == null);
            } catch (ExecutionException e) {
                if (e.getCause() instanceof org.apache.kafka.common.errors.UnknownTopicOrPartitionException) return false;
                throw e;
            }
        });
        return seen.get();
    }

    Map<String, Object> describeTopic(JsonNode c, String name) throws Exception {
        TopicDescription topic = admin(c).describeTopics(List.of(name)).allTopicNames().get().get(name);
        List<Object> rows = new ArrayList<>();
        for (TopicPartitionInfo p : topic.partitions()) {
            rows.add(row("partition", p.partition(), "leader", p.leader() == null || p.leader().isEmpty() ? null : p.leader().id(),
                "replicas", p.replicas().stream().map(Node::id).toList(), "isr", p.isr().stream().map(Node::id).toList()));
        }
        return row("topic_id", topic.topicId().toString(), "partitions", rows);
    }

    Object produce(JsonNode c) throws Exception {
        Map<String, Object> properties = producerProperties(c);
        properties.put("acks", c.path("acks").asText("all"));
        properties.put("enable.idempotence", c.path("idempotent").asBoolean(true));
        return send(producers.computeIfAbsent(properties, KafkaProducer::new), c);
    }

    Object beginTransaction(JsonNode c) throws Exception {
        String id = text(c, "transactional_id");
        Producer<byte[], String> producer = transactions.get(id);
        if (producer == null) {
            Map<String, Object> properties = producerProperties(c);
            properties.put("transactional.id", id);
            producer = new KafkaProducer<>(properties);
            producer.initTransactions();
            transactions.put(id, producer);
        }
        producer.beginTransaction();
        return send(producer, c);
    }

    Object endTransaction(JsonNode c) throws Exception {
        Producer<byte[], String> producer = transactions.get(text(c, "transactional_id"));
        if (c.path("commit").asBoolean()) producer.commitTransaction();
        else producer.abortTransaction();
        // The producer is told so before the markers are written, which move the end of the log.
        await("the end of the transaction", () -> COMPLETE.contains(
            admin(c).describeTransactions(List.of(text(c, "transactional_id"))).all().get()
                .get(text(c, "transactional_id")).state()));
        return null;
    }

    /** Sends the same values to each partition asked for, one batch per partition while they fit in it (1 MiB for up to 16 partitions). */
    Object send(Producer<byte[], String> producer, JsonNode c) throws Exception {
        Map<Integer, List<Future<RecordMetadata>>> sent = new TreeMap<>();
        for (JsonNode partition : c.path("partitions")) {
            List<Future<RecordMetadata>> futures = sent.computeIfAbsent(partition.asInt(), p -> new ArrayList<>());
            Iterator<JsonNode> keys = c.path("keys").elements();
            for (JsonNode value : c.path("values")) {
                byte[] key = keys.hasNext() ? keys.next().asText().getBytes(StandardCharsets.UTF_8) : null;
                futures.add(producer.send(new ProducerRecord<>(text(c, "topic"), partition.asInt(), key, value.asText())));
            }
        }
        producer.flush();
        Map<String, Object> offsets = new TreeMap<>();
        for (Map.Entry<Integer, List<Future<RecordMetadata>>> entry : sent.entrySet()) {
            List<Long> of = new ArrayList<>();
            for (Future<RecordMetadata> future : entry.getValue()) of.add(future.get().offset());
            offsets.put(entry.getKey().toString(), of);
        }
        return offsets;
    }

    Map<String, Object> producerProperties(JsonNode c) {
        Map<String, Object> properties = clientProperties(c);
        properties.put("key.serializer", ByteArraySerializer.class);
        properties.put("value.serializer", StringSerializer.class);
        properties.put("linger.ms", 60_000); // flush() sends: one batch per partition and command
        // All batches together must fit in the producer's 32 MiB, or it waits for the linger time.
        int share = Integer.highestOneBit(16 * 1024 * 1024 / Math.max(1, c.path("partitions").size()));
        properties.put("batch.size", Math.min(1024 * 1024, share));
        return properties;
    }

    Object listOffsets(JsonNode c) throws Exception {
        OffsetSpec spec = c.path("earliest").asBoolean() ? OffsetSpec.earliest() : OffsetSpec.latest();
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (TopicPartition p : partitions(c.path("topics"))) asked.put(p, spec);
        ListOffsetsOptions options = new ListOffsetsOptions(
            c.path("committed").asBoolean() ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED);
        Map<String, Object> offsets = new TreeMap<>();
        admin(c).listOffsets(asked, options).all().get().forEach((p, info) -> offsets.put(p.toString(), info.offset()));
        return offsets;
    }

    // -- consuming ----------------------------------------------------------------------------------------------------

    Object openConsumer(JsonNode c) {
        Map<String, Object> properties = clientProperties(c);
        properties.put("group.id", text(c, "group"));
        properties.put("share.acknowledgement.mode", "explicit");
        properties.putAll(stringMap(c.path("properties")));
        KafkaShareConsumer<byte[], String> consumer =
            new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new StringDeserializer());
        consumer.subscribe(texts(c, "topics"));
        String name = "consumer-" + UUID.randomUUID();
        consumers.put(name, new OpenConsumer(consumer));
        return name;
    }

    /** Polls, acknowledges and commits until enough records came or the time is over. */
    Object poll(JsonNode c) throws Exception {
        OpenConsumer open = consumer(c);
        int wanted = c.path("max_records").isNull() ? Integer.MAX_VALUE : c.path("max_records").asInt();
        long deadline = System.nanoTime() + (long) (c.path("timeout").asDouble() * 1e9);
        List<Object> got = new ArrayList<>();
        Map<String, String> errors = new TreeMap<>();
        // A consumer may not poll again while it holds records that were not acknowledged.
        while (got.size() < wanted && open.held.isEmpty()) {
            long left = Math.max(0, deadline - System.nanoTime());
            List<ConsumerRecord<byte[], String>> batch = new ArrayList<>();
            open.consumer.poll(Duration.ofNanos(Math.min(left, 200_000_000L))).forEach(batch::add);
            for (ConsumerRecord<byte[], String> r : batch) {
                open.held.put(key(r), r);
                got.add(row("topic", r.topic(), "partition", r.partition(), "offset", r.offset(), "value", r.value(),
                    "delivery_count", r.deliveryCount().map(Short::intValue).orElse(null)));
            }
            if (!batch.isEmpty()) errors.putAll(acknowledge(open, c, batch));
            else if (left == 0) break;
        }
        return row("records", got, "errors", errors);
    }

    /** Returns the partitions whose acknowledgements failed, with the reason. */
    Map<String, String> acknowledge(OpenConsumer open, JsonNode c, Collection<ConsumerRecord<byte[], String>> records) {
        JsonNode acks = c.path("acks");
        for (ConsumerRecord<byte[], String> r : records) {
            String type = acks.path(key(r)).asText(acks.path(Long.toString(r.offset())).asText(c.path("otherwise").asText("accept")));
            if (type.equals("none")) continue;
            open.consumer.acknowledge(r, AcknowledgeType.valueOf(type.toUpperCase(Locale.ROOT)));
            open.held.remove(key(r));
        }
        Map<String, String> errors = new TreeMap<>();
        open.consumer.commitSync().forEach((p, error) -> error.ifPresent(
            e -> errors.put(p.topicPartition().toString(), e.getClass().getSimpleName() + ": " + e.getMessage())));
        return errors;
    }

    Object closeConsumer(JsonNode c) {
        OpenConsumer open = consumer(c);
        consumers.remove(text(c, "consumer"));
        open.consumer.close(CLOSE); // releases what it still holds
        return null;
    }

    Object consume(JsonNode c) {
        Map<String, Object> properties = clientProperties(c);
        properties.put("group.id", text(c, "group"));
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", false);
        properties.putAll(stringMap(c.path("properties")));
        int wanted = c.path("max_records").isNull() ? Integer.MAX_VALUE : c.path("max_records").asInt();
        long deadline = System.nanoTime() + (long) (c.path("timeout").asDouble() * 1e9);
        List<Object> got = new ArrayList<>();
        try (KafkaConsumer<byte[], String> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new StringDeserializer())) {
            consumer.subscribe(texts(c, "topics"));
            while (got.size() < wanted && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(r ->
                    got.add(row("topic", r.topic(), "partition", r.partition(), "offset", r.offset(), "value", r.value())));
                consumer.commitSync();
            }
        }
        return got;
    }

    // -- groups -------------------------------------------------------------------------------------------------------

    Object setGroupConfig(JsonNode c) throws Exception {
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, text(c, "group"));
        Map<String, String> wanted = stringMap(c.path("configs"));
        List<AlterConfigOp> changes = new ArrayList<>();
        wanted.forEach((k, v) -> changes.add(new AlterConfigOp(new ConfigEntry(k, v), AlterConfigOp.OpType.SET)));
        admin(c).incrementalAlterConfigs(Map.of(group, changes)).all().get();
        await("the configuration of group " + text(c, "group"), () -> {
            Config seen = admin(c).describeConfigs(List.of(group)).all().get().get(group);
            return wanted.entrySet().stream().allMatch(
                e -> seen.get(e.getKey()) != null && e.getValue().equals(seen.get(e.getKey()).value()));
        });
        return null;
    }

    Object listGroups(JsonNode c) throws Exception {
        ListGroupsOptions options = c.path("share_only").asBoolean(true) ? ListGroupsOptions.forShareGroups() : new ListGroupsOptions();
        List<Object> groups = new ArrayList<>();
        for (GroupListing g : admin(c).listGroups(options).all().get()) {
            groups.add(row("group", g.groupId(), "type", g.type().map(Object::toString).orElse(null), "protocol", g.protocol(),
                "state", g.groupState().map(Object::toString).orElse(null)));
        }
        return groups;
    }

    Object describeGroup(JsonNode c) throws Exception {
        String id = text(c, "group");
        ShareGroupDescription g = admin(c).describeShareGroups(List.of(id)).all().get().get(id);
        List<Object> members = new ArrayList<>();
        for (ShareMemberDescription m : g.members()) {
            members.add(row("member_id", m.consumerId(), "client_id", m.clientId(),
                "partitions", m.assignment().topicPartitions().stream().map(TopicPartition::toString).sorted().toList()));
        }
        return row("group", id, "state", g.groupState().toString(), "coordinator", g.coordinator().id(), "members", members);
    }

    /** One row per partition the admin client reports; null offset, epoch and lag where it has none. */
    Object listShareGroupOffsets(JsonNode c) throws Exception {
        String group = text(c, "group");
        ListShareGroupOffsetsSpec spec = new ListShareGroupOffsetsSpec();
        if (!c.path("topics").isNull()) spec.topicPartitions(partitions(c.path("topics")));
        ListShareGroupOffsetsResult result = admin(c).listShareGroupOffsets(Map.of(group, spec));
        List<Map<String, Object>> rows = new ArrayList<>();
        // 4.1 has another method and result class than later versions.
        Map<?, ?> byGroup = (Map<?, ?>) result.all().get();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) byGroup.get(group)).entrySet()) {
            TopicPartition p = (TopicPartition) entry.getKey();
            Object info = entry.getValue();
            Object start = info == null ? null : call(info, info instanceof OffsetAndMetadata ? "offset" : "startOffset");
            rows.add(row("topic", p.topic(), "partition", p.partition(), "start_offset", start,
                "leader_epoch", info == null ? null : ((Optional<?>) call(info, "leaderEpoch")).orElse(null),
                "lag", info == null || info instanceof OffsetAndMetadata ? null : ((Optional<?>) call(info, "lag")).orElse(null)));
        }
        rows.sort(Comparator.comparing((Map<String, Object> r) -> (String) r.get("topic")).thenComparing(r -> (Integer) r.get("partition")));
        return rows;
    }

    static Object call(Object target, String method) throws Exception {
        return target.getClass().getMethod(method).invoke(target);
    }

    Object alterOffsets(JsonNode c) throws Exception {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        c.path("offsets").fields().forEachRemaining(topic -> topic.getValue().fields().forEachRemaining(
            p -> offsets.put(new TopicPartition(topic.getKey(), Integer.parseInt(p.getKey())), p.getValue().asLong())));
        return admin(c).alterShareGroupOffsets(text(c, "group"), offsets).all().get();
    }

    // -- rights and brokers -------------------------------------------------------------------------------------------

    AclBinding acl(JsonNode c) {
        ResourcePattern resource = new ResourcePattern(ResourceType.valueOf(text(c, "resource")), text(c, "name"), PatternType.LITERAL);
        return new AclBinding(resource, new AccessControlEntry(
            text(c, "principal"), "*", AclOperation.valueOf(text(c, "operation")), AclPermissionType.valueOf(text(c, "permission"))));
    }

    Object addAcl(JsonNode c) throws Exception {
        admin(c).createAcls(List.of(acl(c))).all().get();
        await("the ACL", () -> !admin(c).describeAcls(acl(c).toFilter()).values().get().isEmpty());
        return null;
    }

    Object removeAcl(JsonNode c) throws Exception {
        int found = admin(c).deleteAcls(List.of(acl(c).toFilter())).all().get().size();
        await("the removal of the ACL", () -> admin(c).describeAcls(acl(c).toFilter()).values().get().isEmpty());
        return found;
    }

    Object createScramUser(JsonNode c) throws Exception {
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.fromMechanismName(text(c, "mechanism")), 4096);
        admin(c).alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion(text(c, "name"), info, text(c, "password")))).all().get();
        await("the user", () -> admin(c).describeUserScramCredentials().users().get().contains(text(c, "name")));
        return null;
    }

    Object describeCluster(JsonNode c) throws Exception {
        DescribeClusterResult cluster = admin(c).describeCluster();
        List<Object> nodes = new ArrayList<>();
        for (Node n : cluster.nodes().get()) nodes.add(row("node_id", n.id(), "host", n.host(), "port", n.port()));
        return row("cluster_id", cluster.clusterId().get(), "controller", cluster.controller().get().id(), "nodes", nodes);
    }

    // -- the clients and the JSON -------------------------------------------------------------------------------------

    Object close(JsonNode c) {
        consumers.values().forEach(open -> open.consumer.close(CLOSE));
        transactions.values().forEach(producer -> producer.close(Duration.ZERO));
        producers.values().forEach(producer -> producer.close(Duration.ZERO));
        admins.values().forEach(admin -> admin.close(Duration.ZERO));
        return null;
    }

    /** The controller has a change before the brokers have; a driver's caller must not see that. */
    static void await(String what, Callable<Boolean> arrived) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!arrived.call()) {
            if (System.nanoTime() > deadline) throw new TimeoutException(what + " did not reach the brokers in 30 s");
            Thread.sleep(10);
        }
    }

    Admin admin(JsonNode c) {
        return admins.computeIfAbsent(clientProperties(c), Admin::create);
    }

    OpenConsumer consumer(JsonNode c) {
        OpenConsumer open = consumers.get(text(c, "consumer"));
        if (open == null) throw new IllegalArgumentException("no open consumer " + text(c, "consumer"));
        return open;
    }

    static Map<String, Object> clientProperties(JsonNode c) {
        return new HashMap<>(stringMap(c.path("client")));
    }

    static String key(ConsumerRecord<?, ?> r) {
        return r.topic() + "-" + r.partition() + "-" + r.offset();
    }

    static TopicPartition partition(JsonNode c) {
        return new TopicPartition(text(c, "topic"), c.path("partition").asInt());
    }

    static List<TopicPartition> partitions(JsonNode topics) {
        List<TopicPartition> all = new ArrayList<>();
        topics.fields().forEachRemaining(t -> t.getValue().forEach(p -> all.add(new TopicPartition(t.getKey(), p.asInt()))));
        return all;
    }

    static Map<String, String> stringMap(JsonNode object) {
        Map<String, String> map = new HashMap<>();
        object.fields().forEachRemaining(field -> map.put(field.getKey(), field.getValue().asText()));
        return map;
    }

    static String text(JsonNode c, String name) {
        if (!c.hasNonNull(name)) throw new IllegalArgumentException("missing argument " + name);
        return c.get(name).asText();
    }

    static List<String> texts(JsonNode c, String name) {
        List<String> all = new ArrayList<>();
        c.path(name).forEach(value -> all.add(value.asText()));
        return all;
    }

    static Map<String, Object> row(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) map.put((String) pairs[i], pairs[i + 1]);
        return map;
    }
}
