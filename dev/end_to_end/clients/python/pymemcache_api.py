"""The whole of pymemcache against the server at host:port; `tls FILE` before it: over TLS, with these authorities."""

import json
import ssl
import sys
import threading

from check import check, raises, run
from pymemcache import MemcacheClientError, MemcacheIllegalInputError, MemcacheServerError
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheUnknownCommandError


TLS = {"tls_context": ssl.create_default_context(cafile=sys.argv[2])} if sys.argv[1] == "tls" else {}


def client(address, **options):
    """A fresh client of an empty server."""
    options.setdefault("default_noreply", False)
    fresh = Client(address, connect_timeout=60, timeout=60, **TLS, **options)
    fresh.flush_all()
    return fresh


@check
def values_come_back_as_they_went(address):
    c = client(address)
    assert c.get("a") is None and c.get("a", "default") == "default"
    for value in (b"", b"x", b"\r\n", bytes(range(256)), b"END\r\n" * 10, b"v" * 100_000, b"v" * 1_000_000):
        assert c.set("a", value) is True
        assert c.get("a") == value


@check
def add_and_replace_mind_what_is_there(address):
    c = client(address)
    assert c.replace("a", "1") is False and c.add("a", "1") is True
    assert c.add("a", "2") is False and c.replace("a", "3") is True
    assert c.get("a") == b"3"


@check
def append_and_prepend_lengthen(address):
    c = client(address)
    assert c.append("a", "x") is False and c.prepend("a", "x") is False
    c.set("a", "m")
    assert c.append("a", "z") is True and c.prepend("a", "a") is True
    assert c.get("a") == b"amz"


@check
def cas_stores_once(address):
    c = client(address)
    assert c.gets("a") == (None, None) and c.cas("a", "x", b"1") is None
    c.set("a", "1")
    value, token = c.gets("a")
    assert value == b"1" and c.cas("a", "2", token) is True and c.cas("a", "3", token) is False
    assert c.get("a") == b"2"


@check
def many_at_once(address):
    c = client(address)
    values = {f"key{i}": f"value{i}".encode() for i in range(500)}
    assert c.set_many(values) == []
    assert c.get_many(list(values) + ["missing"]) == values
    tokens = c.gets_many(["key1", "key2", "missing"])
    assert set(tokens) == {"key1", "key2"} and tokens["key1"][0] == b"value1"
    assert c.delete_many(list(values)) is True and c.get_many(values) == {}


@check
def numbers_count(address):
    c = client(address)
    assert c.incr("n", 1) is None and c.decr("n", 1) is None
    c.set("n", "10")
    assert c.incr("n", 5) == 15 and c.decr("n", 6) == 9 and c.decr("n", 100) == 0
    c.set("n", str(2**64 - 1))
    assert c.incr("n", 2) == 1
    c.set("n", "words")
    assert raises(MemcacheClientError, lambda: c.incr("n", 1))


@check
def delete_says_whether_it_was_there(address):
    c = client(address)
    assert c.delete("a") is False
    c.set("a", "1")
    assert c.delete("a") is True and c.get("a") is None


@check
def touch_prolongs(address):
    c = client(address)
    assert c.touch("a", 100) is False
    c.set("a", "1", expire=100)
    assert c.touch("a", 200) is True and c.get("a") == b"1"
    assert c.touch("a", -1) is True and c.get("a") is None


@check
def expiry_in_the_past_is_gone_at_once(address):
    c = client(address)
    c.set("a", "1", expire=-1)
    assert c.get("a") is None


@check
def noreply_leaves_the_conversation_in_step(address):
    c = client(address)
    for i in range(200):
        c.set(f"k{i}", "1", noreply=True)
        c.incr(f"k{i}", 1, noreply=True)
        c.append(f"k{i}", "0", noreply=True)
        c.touch(f"k{i}", 100, noreply=True)
    c.delete("k0", noreply=True)
    c.add("k1", "no", noreply=True)
    c.set_many({"m1": "1", "m2": "2"}, noreply=True)
    c.delete_many(["m1"], noreply=True)
    assert c.get("k199") == b"20" and c.get("k0") is None and c.get("m1") is None and c.get("m2") == b"2"


@check
def flags_carry_a_serializer(address):
    class Json:
        def serialize(self, key, value):
            return (value, 1) if isinstance(value, str) else (json.dumps(value), 2)

        def deserialize(self, key, value, flags):
            return value.decode() if flags == 1 else json.loads(value)

    c = client(address, serde=Json())
    c.set("text", "plain")
    c.set("tree", {"a": [1, 2, {"b": None}]})
    assert c.get("text") == "plain" and c.get("tree") == {"a": [1, 2, {"b": None}]}
    assert c.get_many(["text", "tree"])["tree"]["a"][0] == 1


@check
def prefixes_and_other_keys(address):
    c = client(address, key_prefix=b"app:")
    c.set("a", "1")
    assert c.get("a") == b"1" and Client(address, **TLS).get("app:a") == b"1"
    u = client(address, allow_unicode_keys=True)
    u.set("schlüssel", "1")
    assert u.get("schlüssel") == b"1"
    longest = "k" * 250
    u.set(longest, "1")
    assert u.get(longest) == b"1" and raises(MemcacheIllegalInputError, lambda: u.get("k" * 251))


@check
def it_can_be_used_like_a_dictionary(address):
    c = client(address)
    c["a"] = "1"
    assert c["a"] == b"1"
    del c["a"]
    assert raises(KeyError, lambda: c["a"])


@check
def too_large_is_an_error_and_the_connection_lives(address):
    c = client(address)
    c.set("a", "old")
    assert raises(MemcacheServerError, lambda: c.set("a", b"x" * (2 << 20)))
    c.set("b", "1")
    assert c.get("b") == b"1" and c.get("a") is None


@check
def the_server_is_asked_about_itself(address):
    c = client(address)
    assert c.version()
    stats = c.stats()
    assert stats[b"curr_items"] >= 0 and stats[b"limit_maxbytes"] > 0 and stats[b"threads"] > 0
    assert c.stats("settings")[b"maxconns"] > 0
    assert isinstance(c.stats("items"), dict)
    assert c.cache_memlimit(64) is True
    assert c.raw_command(b"mn", b"\r\n") == b"MN"
    assert raises(MemcacheUnknownCommandError, lambda: c._misc_cmd([b"nonsense\r\n"], b"nonsense", False))


@check
def quit_and_close_are_survived(address):
    c = client(address)
    c.set("a", "1")
    c.quit()
    assert c.get("a") == b"1"
    c.close()
    assert c.get("a") == b"1"
    c.disconnect_all()


@check
def a_pool_serves_threads(address):
    client(address)
    pool = PooledClient(address, max_pool_size=8, default_noreply=False, connect_timeout=60, timeout=60, **TLS)
    pool.set("n", "0")

    def count():
        for _ in range(200):
            pool.incr("n", 1)

    threads = [threading.Thread(target=count) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert pool.get("n") == b"1600"
    pool.close()


@check
def hashing_and_retrying_clients_work(address):
    client(address)
    h = HashClient([address], default_noreply=False, connect_timeout=60, timeout=60, **TLS)
    assert h.set("a", "1") is True and h.get("a") == b"1"
    assert h.set_many({"b": "2", "c": "3"}) == [] and h.get_many(["b", "c"]) == {"b": b"2", "c": b"3"}
    assert h.incr("a", 1) == 2 and h.delete("a") is True
    value, token = h.gets("b")
    assert h.cas("b", "4", token) is True
    h.close()
    r = RetryingClient(client(address), attempts=3)
    assert r.set("a", "1") is True and r.get("a") == b"1"


host, port = sys.argv[-1].rsplit(":", 1)
run((host, int(port)))
