import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;
import net.spy.memcached.CASMutation;
import net.spy.memcached.CASMutator;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;
import net.spy.memcached.internal.OperationFuture;
import net.spy.memcached.ops.StatusCode;
import net.spy.memcached.transcoders.IntegerTranscoder;
import net.spy.memcached.transcoders.LongTranscoder;
import net.spy.memcached.transcoders.SerializingTranscoder;

/**
 * The whole of spymemcached against the server at host:port; {@code binary} before it: by the binary protocol; {@code sasl}
 * before it: by that protocol, as a user of that server.
 */
final class SpymemcachedApi {
    private static boolean isBinary;
    private static boolean isUser;
    private static InetSocketAddress address;
    private static MemcachedClient c;

    public static void main(String[] words) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        LogManager.getLogManager().reset();
        List<String> before = Arrays.asList(words).subList(0, words.length - 1);
        isUser = before.contains("sasl");
        isBinary = isUser || before.contains("binary");
        String[] parts = words[words.length - 1].split(":");
        address = new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
        c = connect(new SerializingTranscoder(5_000_000));
        Checks checks = new Checks();
        addTo(checks);
        checks.run(() -> Checks.expect(c.flush().get(), true));
    }

    private static MemcachedClient connect(SerializingTranscoder transcoder) throws Exception {
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder()
            .setProtocol(isBinary ? ConnectionFactoryBuilder.Protocol.BINARY : ConnectionFactoryBuilder.Protocol.TEXT)
            // By the text protocol, the library leaves a connection on which a server has answered with an error. What comes
            // next has to wait for a new one.
            .setFailureMode(FailureMode.Retry)
            .setTranscoder(transcoder)
            .setOpTimeout(60_000)
            .setAuthWaitTime(60_000);
        if (isUser) {
            String[] mechanisms = {"PLAIN"};
            builder.setAuthDescriptor(new AuthDescriptor(mechanisms, new PlainCallbackHandler("me", "secret")));
        }
        return new MemcachedClient(builder.build(), List.of(address));
    }

    private static boolean set(String key, Object value) throws Exception {
        return c.set(key, 0, value).get();
    }

    private static void addTo(Checks checks) {
        checks.add("values come back as they went", () -> {
            List<Object> values = List.of("", "x", "\r\n", "schön", "END\r\n".repeat(10), 7, -7L, (byte) 3, 2.5, 1.5f, true,
                new Date(1_000_000), new Point(1, List.of("a")));
            for (Object value : values) {
                Checks.expect(set("a", value), true);
                Checks.expect(c.get("a"), value);
            }
            byte[] bytes = new byte[900_000];
            new java.util.Random(1).nextBytes(bytes);
            Checks.expect(set("a", bytes), true);
            Checks.expect(Arrays.equals((byte[]) c.get("a"), bytes), true);
            Checks.expect(c.get("missing"), null);
        });
        checks.add("compressed values come back", () -> {
            String value = "compressible ".repeat(10_000);
            Checks.expect(set("a", value), true);
            Checks.expect(c.get("a"), value);
        });
        checks.add("other transcoders come back", () -> {
            Checks.expect(c.set("a", 0, 5, new IntegerTranscoder()).get(), true);
            Checks.expect(c.get("a", new IntegerTranscoder()), 5);
            Checks.expect(c.add("b", 0, 6L, new LongTranscoder()).get(), true);
            Checks.expect(c.gets("b", new LongTranscoder()).getValue(), 6L);
        });
        checks.add("add and replace mind what is there", () -> {
            Checks.expect(c.replace("a", 0, "1").get(), false);
            Checks.expect(c.add("a", 0, "1").get(), true);
            Checks.expect(c.add("a", 0, "2").get(), false);
            Checks.expect(c.replace("a", 0, "3").get(), true);
            Checks.expect(c.get("a"), "3");
        });
        checks.add("append and prepend lengthen", () -> {
            Checks.expect(c.append("a", "x").get(), false);
            Checks.expect(c.prepend("a", "x").get(), false);
            set("a", "m");
            Checks.expect(c.append("a", "z").get(), true);
            Checks.expect(c.prepend("a", "a").get(), true);
            Checks.expect(c.get("a"), "amz");
            if (isBinary) {
                // The text protocol has no place for the CAS unique.
                long cas = c.gets("a").getCas();
                Checks.expect(c.append(cas + 1, "a", "!").get(), false);
                Checks.expect(c.append(cas, "a", "!").get(), true);
                Checks.expect(c.get("a"), "amz!");
            }
        });
        checks.add("compare and swap stores once", () -> {
            Checks.expect(c.gets("a"), null);
            Checks.expect(c.cas("a", 1, "x"), CASResponse.NOT_FOUND);
            set("a", "1");
            CASValue<Object> read = c.gets("a");
            Checks.expect(read.getValue(), "1");
            Checks.expect(c.cas("a", read.getCas(), "2"), CASResponse.OK);
            Checks.expect(c.cas("a", read.getCas(), "3"), CASResponse.EXISTS);
            Checks.expect(c.asyncCAS("a", c.asyncGets("a").get().getCas(), 100, "4").get(), CASResponse.OK);
            Checks.expect(c.get("a"), "4");
        });
        checks.add("a mutator changes what others change, too", () -> {
            CASMutator<Integer> mutator = new CASMutator<>(c, new IntegerTranscoder());
            CASMutation<Integer> addOne = current -> current + 1;
            Thread[] threads = new Thread[4];
            List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
            for (int i = 0; i < threads.length; i++) {
                threads[i] = new Thread(() -> {
                    try {
                        for (int j = 0; j < 50; j++) {
                            mutator.cas("a", 0, 0, addOne);
                        }
                    } catch (Throwable error) {
                        failures.add(error);
                    }
                });
                threads[i].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            Checks.expect(failures, List.of());
            // The first of them stored 0 in place of a value.
            Checks.expect(c.get("a", new IntegerTranscoder()), 199);
        });
        checks.add("numbers count", () -> {
            Checks.expect(c.incr("n", 1), -1L);
            Checks.expect(c.decr("n", 1), -1L);
            Checks.expect(c.incr("n", 5, 10L), 10L);
            Checks.expect(c.incr("n", 5), 15L);
            Checks.expect(c.asyncIncr("n", 1).get(), 16L);
            Checks.expect(c.asyncDecr("n", 7).get(), 9L);
            Checks.expect(c.decr("n", 100, 7L, 60), 0L);
            Checks.expect(c.decr("m", 1, 7L, 60), 7L);
            if (isBinary) {
                // The text protocol has no such command, and the library makes none of others.
                Checks.expect(c.asyncIncr("k", 1, 3L, 60).get(), 3L);
                Checks.expect(c.asyncDecr("k", 1, 3L, 60).get(), 2L);
            }
            set("words", "words");
            OperationFuture<Long> wrong = c.asyncIncr("words", 1);
            try {
                Checks.expect(wrong.get(), -1L);
            } catch (java.util.concurrent.ExecutionException refused) {
                // The text protocol answers with an error.
            }
            Checks.expect(wrong.getStatus().isSuccess(), false);
            Checks.expect(c.get("words"), "words");
        });
        checks.add("many at once", () -> {
            List<OperationFuture<Boolean>> stores = new ArrayList<>();
            Map<String, Object> values = new HashMap<>();
            for (int i = 0; i < 500; i++) {
                values.put("key" + i, i);
                stores.add(c.set("key" + i, 0, i));
            }
            for (OperationFuture<Boolean> store : stores) {
                Checks.expect(store.get(), true);
            }
            List<String> keys = new ArrayList<>(values.keySet());
            keys.add("missing");
            Checks.expect(c.getBulk(keys), values);
            Checks.expect(c.asyncGetBulk(keys).getSome(60, TimeUnit.SECONDS), values);
            Checks.expect(c.getBulk("key1", "key2"), Map.of("key1", 1, "key2", 2));
            Checks.expect(c.asyncGet("key1").get(), 1);
        });
        checks.add("delete and touch say whether it was there", () -> {
            Checks.expect(c.delete("a").get(), false);
            OperationFuture<Boolean> missing = c.touch("a", 100);
            Checks.expect(missing.get(), false);
            Checks.expect(missing.getStatus().getStatusCode(), StatusCode.ERR_NOT_FOUND);
            c.set("a", 100, "1").get();
            Checks.expect(c.touch("a", 200).get(), true);
            Checks.expect(c.get("a"), "1");
            Checks.expect(c.touch("a", 3_000_000).get(), true);
            Checks.expect(c.get("a"), null);
            set("a", "1");
            Checks.expect(c.delete("a").get(), true);
            Checks.expect(c.get("a"), null);
            if (isBinary) {
                set("a", "1");
                long cas = c.gets("a").getCas();
                Checks.expect(c.delete("a", cas + 1).get(), false);
                Checks.expect(c.delete("a", cas).get(), true);
            }
        });
        checks.add("get-and-touch prolongs where the protocol has it", () -> {
            set("a", "1");
            if (isBinary) {
                Checks.expect(c.getAndTouch("a", 100).getValue(), "1");
                Checks.expect(c.asyncGetAndTouch("a", 3_000_000).get().getValue(), "1");
                Checks.expect(c.getAndTouch("a", 100), null);
            } else {
                Checks.fails(UnsupportedOperationException.class, () -> c.getAndTouch("a", 100));
            }
        });
        checks.add("what is too large is refused and the next request works", () -> {
            byte[] large = new byte[2 << 20];
            new java.util.Random(2).nextBytes(large);
            set("a", "old");
            OperationFuture<Boolean> store = c.set("a", 0, large);
            boolean isStored = false;
            try {
                isStored = store.get();
            } catch (java.util.concurrent.ExecutionException refused) {
                // The text protocol answers with an error.
            }
            Checks.expect(isStored, false);
            Checks.expect(set("b", "1"), true);
            Checks.expect(c.get("b"), "1");
            Checks.expect(c.get("a"), null);
        });
        checks.add("keys to the limit", () -> {
            String longest = "k".repeat(250);
            Checks.expect(set(longest, "1"), true);
            Checks.expect(c.get(longest), "1");
            Checks.fails(IllegalArgumentException.class, () -> set(longest + "k", "1"));
            Checks.expect(set("schlüssel", "1"), true);
            Checks.expect(c.get("schlüssel"), "1");
            if (!isBinary) {
                Checks.fails(IllegalArgumentException.class, () -> set("a b", "1"));
            }
        });
        checks.add("listeners hear of answers", () -> {
            CountDownLatch heard = new CountDownLatch(2);
            c.set("a", 0, "1").addListener(future -> heard.countDown());
            c.asyncGet("a").addListener(future -> heard.countDown());
            Checks.expect(heard.await(60, TimeUnit.SECONDS), true);
            Checks.expect(c.waitForQueues(60, TimeUnit.SECONDS), true);
        });
        checks.add("versions and emptying", () -> {
            Checks.expect(c.getVersions().keySet(), Set.of(address));
            Checks.expect(c.getAvailableServers().size(), 1);
            set("a", "1");
            Checks.expect(c.flush().get(), true);
            Checks.expect(c.get("a"), null);
        });
        checks.add("the server is asked about itself", () -> {
            Checks.expect(Integer.parseInt(c.getStats().get(address).get("pid")) > 0, true);
            Checks.expect(Integer.parseInt(c.getStats("settings").get(address).get("maxconns")) > 0, true);
            set("a", "1");
            Checks.expect(c.getStats("items").get(address).isEmpty(), false);
            Checks.expect(c.getStats("slabs").get(address).isEmpty(), false);
        });
        if (isUser) {
            checks.add("mechanisms are listed", () -> {
                Checks.expect(c.listSaslMechanisms().contains("PLAIN"), true);
            });
        }
    }
}
