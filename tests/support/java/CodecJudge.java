import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads message bodies with Kafka's own classes, tells what it found as JSON, and writes them again.
 *
 * A question is: the message's name (UTF with length), the version (short), the size of the body (int), the body.
 * An answer is: true, the JSON (size and bytes), the body as Java writes it (size and bytes); or false and the error
 * (size and bytes).
 */
public final class CodecJudge {
    private static final String PACKAGE = "org.apache.kafka.common.message.";

    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        while (true) {
            String name;
            try {
                name = in.readUTF();
            } catch (EOFException end) {
                return;
            }
            short version = in.readShort();
            byte[] body = new byte[in.readInt()];
            in.readFully(body);
            judge(name, version, body, out);
            out.flush();
        }
    }

    private static void judge(String name, short version, byte[] body, DataOutputStream out) throws IOException {
        byte[] json;
        byte[] again;
        try {
            Class<?> data = Class.forName(PACKAGE + name + "Data");
            ApiMessage message = (ApiMessage) data.getDeclaredConstructor().newInstance();
            ByteBuffer buffer = ByteBuffer.wrap(body);
            message.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                throw new IllegalStateException(buffer.remaining() + " bytes are left");
            }
            Class<?> converter = Class.forName(PACKAGE + name + "DataJsonConverter");
            Object tree = converter.getMethod("write", data, short.class).invoke(null, message, version);
            json = tree.toString().getBytes(StandardCharsets.UTF_8);
            again = write(message, version);
        } catch (ReflectiveOperationException | RuntimeException problem) {
            out.writeBoolean(false);
            put(problem.toString().getBytes(StandardCharsets.UTF_8), out);
            return;
        }
        out.writeBoolean(true);
        put(json, out);
        put(again, out);
    }

    private static byte[] write(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static void put(byte[] bytes, DataOutputStream out) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
