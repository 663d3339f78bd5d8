import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Drain a share group as fast as it goes, or note how old records are when they come: one job per line of stdin. */
public class DrainBench {
    public static void main(String[] arguments) {
        Scanner jobs = new Scanner(System.in, StandardCharsets.UTF_8);
        while (jobs.hasNextLine()) {
            String[] job = jobs.nextLine().split(" ");
            try {
                boolean latency = job[0].equals("latency");
                System.out.println(run(job[1], job[2], job[3], Integer.parseInt(job[4]), latency));
            } catch (Exception error) {
                System.out.println("{\"error\": \"" + String.valueOf(error).replace('"', '\'') + "\"}");
            }
            System.out.flush();
        }
    }

    private static String run(String servers, String group, String topic, int count, boolean latency) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", servers, "group.id", group, "share.acknowledgement.mode", "explicit");
        long records = 0;
        long bytes = 0;
        long begun = 0;
        long cpu = 0;
        List<Long> ages = new ArrayList<>();
        ByteArrayDeserializer plain = new ByteArrayDeserializer();
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings, plain, plain)) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + 90_000_000_000L;
            while (records < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    if (begun == 0) {
                        begun = System.nanoTime();
                        cpu = processorNanos();
                        if (latency) {
                            System.err.println("ready");
                        }
                    }
                    if (latency) {
                        Instant now = Instant.now();
                        long stamp = ByteBuffer.wrap(record.value()).getLong();
                        ages.add(now.getEpochSecond() * 1_000_000_000L + now.getNano() - stamp);
                    }
                    records++;
                    bytes += record.value().length;
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                }
                if (latency) {
                    consumer.commitAsync();
                }
            }
            consumer.commitSync();
            double seconds = (System.nanoTime() - begun) / 1e9;
            double used = (processorNanos() - cpu) / 1e9;
            Collections.sort(ages);
            double median = ages.isEmpty() ? 0 : ages.get(ages.size() / 2) / 1e9;
            return String.format(
                java.util.Locale.ROOT,
                "{\"records\": %d, \"bytes\": %d, \"seconds\": %.6f, \"cpu\": %.6f, \"p50\": %.9f}",
                records, bytes, seconds, used, median);
        }
    }

    private static long processorNanos() {
        return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory
            .getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
