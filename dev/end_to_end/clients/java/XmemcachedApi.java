import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import net.rubyeye.xmemcached.CASOperation;
import net.rubyeye.xmemcached.Counter;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.KeyIterator;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.auth.AuthInfo;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.exception.MemcachedException;
import net.rubyeye.xmemcached.transcoders.CompressionMode;
import net.rubyeye.xmemcached.transcoders.IntegerTranscoder;
import net.rubyeye.xmemcached.transcoders.SerializingTranscoder;
import net.rubyeye.xmemcached.transcoders.StringTranscoder;

/**
 * The whole of xmemcached against the server at host:port; {@code binary} before it: by the binary protocol; {@code sasl}
 * before it: by that protocol, as a user of that server.
 */
final class XmemcachedApi {
    private static boolean isBinary;
    private static boolean isUser;
    private static InetSocketAddress address;
    private static MemcachedClient c;

    public static void main(String[] words) throws Exception {
        List<String> before = Arrays.asList(words).subList(0, words.length - 1);
        isUser = before.contains("sasl");
        isBinary = isUser || before.contains("binary");
        String[] parts = words[words.length - 1].split(":");
        address = new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
        c = connect(3);
        Checks checks = new Checks();
        addTo(checks);
        addUnanswered(checks);
        addExtras(checks);
        checks.run(() -> c.flushAll());
    }

    private static MemcachedClient connect(int connections) throws Exception {
        XMemcachedClientBuilder builder = new XMemcachedClientBuilder(List.of(address));
        if (isBinary) {
            builder.setCommandFactory(new BinaryCommandFactory());
        }
        if (isUser) {
            builder.addAuthInfo(address, AuthInfo.plain("me", "secret"));
        }
        builder.setConnectionPoolSize(connections);
        builder.setConnectTimeout(60_000);
        builder.setOpTimeout(60_000);
        builder.setTranscoder(new SerializingTranscoder(5_000_000));
        return builder.build();
    }

    private static void addTo(Checks checks) {
        checks.add("values come back as they went", () -> {
            List<Object> values = List.of("", "x", "\r\n", "schön", "END\r\n".repeat(10), 7, -7L, (byte) 3, 2.5, 1.5f, true,
                new Point(1, List.of("a")));
            for (Object value : values) {
                Checks.expect(c.set("a", 0, value), true);
                Checks.expect(c.get("a"), value);
            }
            byte[] bytes = new byte[900_000];
            new java.util.Random(1).nextBytes(bytes);
            Checks.expect(c.set("a", 0, bytes), true);
            Checks.expect(Arrays.equals((byte[]) c.get("a"), bytes), true);
            Checks.expect(c.get("missing"), null);
        });
        checks.add("compressed values and those of other transcoders come back", () -> {
            String value = "compressible ".repeat(10_000);
            SerializingTranscoder zip = new SerializingTranscoder();
            zip.setCompressionMode(CompressionMode.ZIP);
            Checks.expect(c.set("a", 0, value, zip), true);
            Checks.expect(c.get("a", zip), value);
            Checks.expect(c.set("b", 0, value), true);
            Checks.expect(c.get("b"), value);
            Checks.expect(c.add("c", 0, 5, new IntegerTranscoder()), true);
            Checks.expect(c.replace("c", 0, 6, new IntegerTranscoder()), true);
            Checks.expect(c.gets("c", new IntegerTranscoder()).getValue(), 6);
            Checks.expect(c.set("d", 0, "text", new StringTranscoder()), true);
            Checks.expect(c.get(List.of("d"), new StringTranscoder()), Map.of("d", "text"));
        });
        checks.add("add and replace mind what is there", () -> {
            Checks.expect(c.replace("a", 0, "1"), false);
            Checks.expect(c.add("a", 0, "1"), true);
            Checks.expect(c.add("a", 0, "2"), false);
            Checks.expect(c.replace("a", 0, "3"), true);
            Checks.expect(c.get("a"), "3");
        });
        checks.add("append and prepend lengthen", () -> {
            Checks.expect(c.append("a", "x"), false);
            Checks.expect(c.prepend("a", "x"), false);
            c.set("a", 0, "m");
            Checks.expect(c.append("a", "z"), true);
            Checks.expect(c.prepend("a", "a"), true);
            Checks.expect(c.get("a"), "amz");
        });
        checks.add("compare and swap stores once", () -> {
            Checks.expect(c.gets("a"), null);
            Checks.expect(c.cas("a", 0, "x", 1), false);
            c.set("a", 0, "1");
            GetsResponse<String> read = c.gets("a");
            Checks.expect(read.getValue(), "1");
            Checks.expect(c.cas("a", 0, "2", read.getCas()), true);
            Checks.expect(c.cas("a", 0, "3", read.getCas()), false);
            Checks.expect(c.get("a"), "2");
        });
        checks.add("an operation changes what others change, too", () -> {
            c.set("a", 0, 0);
            CASOperation<Integer> addOne = new CASOperation<>() {
                @Override
                public int getMaxTries() {
                    return Integer.MAX_VALUE;
                }

                @Override
                public Integer getNewValue(long cas, Integer value) {
                    return value + 1;
                }
            };
            List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
            Thread[] threads = new Thread[4];
            for (int i = 0; i < threads.length; i++) {
                threads[i] = new Thread(() -> {
                    try {
                        for (int j = 0; j < 50; j++) {
                            c.cas("a", addOne);
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
            Checks.expect(c.get("a"), 200);
        });
        checks.add("numbers count", () -> {
            Checks.expect(c.incr("n", 5, 10), 10L);
            Checks.expect(c.incr("n", 5), 15L);
            Checks.expect(c.decr("n", 6), 9L);
            Checks.expect(c.decr("n", 100), 0L);
            Checks.expect(c.decr("m", 5, 3, 60_000, 100), 3L);
            c.set("words", 0, "words");
            Checks.fails(MemcachedException.class, () -> c.incr("words", 1));
            Checks.expect(c.get("words"), "words");
            Counter counter = c.getCounter("counter", 7);
            Checks.expect(counter.incrementAndGet(), 8L);
            Checks.expect(counter.addAndGet(-3), 5L);
            Checks.expect(counter.decrementAndGet(), 4L);
            counter.set(40);
            Checks.expect(counter.get(), 40L);
        });
        checks.add("many at once", () -> {
            Map<String, Object> values = new HashMap<>();
            for (int i = 0; i < 500; i++) {
                values.put("key" + i, i);
                c.set("key" + i, 0, i);
            }
            List<String> keys = new ArrayList<>(values.keySet());
            keys.add("missing");
            Checks.expect(c.get(keys), values);
            Map<String, GetsResponse<Object>> read = c.gets(keys);
            Checks.expect(read.keySet(), values.keySet());
            Checks.expect(c.cas("key1", 0, "new", read.get("key1").getCas()), true);
            Checks.expect(c.cas("key1", 0, "newer", read.get("key1").getCas()), false);
        });
        checks.add("delete and touch say whether it was there", () -> {
            Checks.expect(c.delete("a"), false);
            Checks.expect(c.touch("a", 100), false);
            c.set("a", 100, "1");
            Checks.expect(c.touch("a", 200), true);
            Checks.expect(c.get("a"), "1");
            Checks.expect(c.touch("a", 3_000_000), true);
            Checks.expect(c.get("a"), null);
            c.set("a", 0, "1");
            Checks.expect(c.delete("a"), true);
            Checks.expect(c.get("a"), null);
            if (isBinary) {
                // The text protocol has neither.
                c.set("a", 0, "1");
                Checks.expect(c.getAndTouch("a", 100), "1");
                long cas = c.gets("a").getCas();
                Checks.expect(c.delete("a", cas + 1, 60_000), false);
                Checks.expect(c.delete("a", cas, 60_000), true);
                Checks.expect(c.getAndTouch("a", 100), null);
            }
        });
        checks.add("what is too large is an error and the connection lives", () -> {
            MemcachedClient one = connect(1);
            try {
                byte[] large = new byte[2 << 20];
                new java.util.Random(2).nextBytes(large);
                one.set("a", 0, "old");
                Checks.fails(MemcachedException.class, () -> one.set("a", 0, large));
                Checks.expect(one.set("b", 0, "1"), true);
                Checks.expect(one.get("b"), "1");
                Checks.expect(one.get("a"), null);
            } finally {
                one.shutdown();
            }
        });
        checks.add("keys to the limit", () -> {
            String longest = "k".repeat(250);
            Checks.expect(c.set(longest, 0, "1"), true);
            Checks.expect(c.get(longest), "1");
            Checks.fails(IllegalArgumentException.class, () -> c.set(longest + "k", 0, "1"));
            Checks.expect(c.set("schlüssel", 0, "1"), true);
            Checks.expect(c.get("schlüssel"), "1");
            c.setSanitizeKeys(true);
            Checks.expect(c.set("a b", 0, "1"), true);
            Checks.expect(c.get("a b"), "1");
            c.setSanitizeKeys(false);
        });
    }

    private static void addUnanswered(Checks checks) {
        checks.add("writes without answers leave the conversation in step", () -> {
            // One connection: the order holds on it.
            MemcachedClient one = connect(1);
            try {
                for (int i = 0; i < 200; i++) {
                    one.setWithNoReply("k" + i, 0, "1");
                    one.incrWithNoReply("k" + i, 4);
                    one.decrWithNoReply("k" + i, 2);
                    one.appendWithNoReply("k" + i, "0");
                    one.prependWithNoReply("k" + i, "2");
                }
                one.deleteWithNoReply("k0");
                one.addWithNoReply("k1", 0, "no");
                one.replaceWithNoReply("k2", 0, "yes");
                Checks.expect(one.get("k199"), "230");
                Checks.expect(one.get("k0"), null);
                Checks.expect(one.get("k1"), "230");
                Checks.expect(one.get("k2"), "yes");
                one.flushAllWithNoReply();
                Checks.expect(one.get("k1"), null);
            } finally {
                one.shutdown();
            }
        });
    }

    private static void addExtras(Checks checks) {
        checks.add("a namespace becomes invalid as a whole", () -> {
            c.withNamespace("space", client -> client.set("a", 0, "1"));
            Checks.expect(c.withNamespace("space", client -> client.get("a")), "1");
            Checks.expect(c.get("a"), null);
            c.invalidateNamespace("space");
            Checks.expect(c.withNamespace("space", client -> client.get("a")), null);
        });
        checks.add("versions and emptying", () -> {
            Checks.expect(c.getVersions().keySet(), Set.of(address));
            Checks.expect(c.getAvailableServers().contains(address), true);
            c.set("a", 0, "1");
            c.flushAll(address);
            Checks.expect(c.get("a"), null);
        });
        checks.add("the server is asked about itself", () -> {
            Checks.expect(Integer.parseInt(c.getStats().get(address).get("pid")) > 0, true);
            Checks.expect(Integer.parseInt(c.stats(address).get("threads")) > 0, true);
            Checks.expect(Integer.parseInt(c.getStatsByItem("settings").get(address).get("maxconns")) > 0, true);
            c.set("a", 0, "1");
            Checks.expect(c.getStatsByItem("items").get(address).isEmpty(), false);
        });
        checks.add("the server says more", () -> {
            c.setLoggingLevelVerbosity(address, 0);
            c.setLoggingLevelVerbosityWithNoReply(address, 0);
            Checks.expect(c.get("missing"), null);
        });
        // It uses `stats cachedump` of the text protocol.
        if (!isBinary) {
            checks.add("keys are listed", () -> {
                Set<String> wanted = Set.of("a", "b", "c");
                for (String key : wanted) {
                    c.set(key, 0, "1");
                }
                Set<String> found = new HashSet<>();
                for (KeyIterator keys = c.getKeyIterator(address); keys.hasNext();) {
                    found.add(keys.next());
                }
                Checks.expect(found, wanted);
            });
        }
    }
}
