"""The whole of python-memcached (the module `memcache`) against the server at host:port."""

import sys
import threading

import memcache
from check import check, raises, run


def client(address, **options):
    """A fresh client of an empty server."""
    options.setdefault("socket_timeout", 60)
    fresh = memcache.Client([address], **options)
    fresh.flush_all()
    return fresh


@check
def values_come_back_as_they_went(address):
    c = client(address)
    assert c.get("a") is None and c.get("a", "default") == "default"
    values = ("", "x", "\r\n", "schön", b"", bytes(range(256)), b"END\r\n" * 10, b"v" * 1_000_000, 0, -5, 2**70, True)
    for value in values + (None, 2.5, [1, {"a": (2, 3)}]):
        assert c.set("a", value) and c.get("a") == value, value


@check
def compressed_values_come_back(address):
    c = client(address)
    value = "compressible " * 10_000
    assert c.set("a", value, min_compress_len=100) and c.get("a") == value
    many = {"b": value, "c": "short"}
    assert c.set_multi(many, min_compress_len=100) == [] and c.get_multi(["b", "c"]) == many
    assert c.add("d", value, min_compress_len=100) and c.replace("d", value, min_compress_len=100)
    assert c.get("d") == value


@check
def add_and_replace_mind_what_is_there(address):
    c = client(address)
    assert not c.replace("a", "1") and c.add("a", "1") and not c.add("a", "2") and c.replace("a", "3")
    assert c.get("a") == "3"


@check
def append_and_prepend_lengthen(address):
    c = client(address)
    assert not c.append("a", "x") and not c.prepend("a", "x")
    c.set("a", "m")
    assert c.append("a", "z") and c.prepend("a", "a") and c.get("a") == "amz"


@check
def cas_stores_once(address):
    mine, theirs = client(address, cache_cas=True), memcache.Client([address], cache_cas=True, socket_timeout=60)
    mine.set("a", "1")
    assert mine.gets("a") == "1" and theirs.gets("a") == "1"
    assert mine.cas("a", "2") and not theirs.cas("a", "3") and mine.get("a") == "2"
    assert mine.gets("missing") is None
    mine.delete("a")
    assert not theirs.cas("a", "3")
    theirs.reset_cas()
    # Without a token it is a set.
    assert theirs.cas("a", "4") and mine.get("a") == "4"


@check
def many_at_once(address):
    c = client(address)
    values = {f"key{i}": i for i in range(500)}
    assert c.set_multi(values) == []
    assert c.get_multi(list(values) + ["missing"]) == values
    assert c.delete_multi(list(values)) == 1 and c.get_multi(list(values)) == {}
    assert c.set_multi({1: "one", 2: "two"}, key_prefix="p") == [] and c.get("p1") == "one"
    assert c.get_multi([1, 2, 3], key_prefix="p") == {1: "one", 2: "two"}
    assert c.delete_multi([1], key_prefix="p") == 1 and c.get("p1") is None
    # The module sends `delete KEY 0`, which is one of the old forms.
    assert c.delete_multi(["p2"], time=0) == 1 and c.get("p2") is None


@check
def numbers_count(address):
    c = client(address)
    assert c.incr("n") is None and c.decr("n") is None
    c.set("n", 10)
    assert c.incr("n", 5) == 15 and c.decr("n", 6) == 9 and c.decr("n", 100) == 0
    # The server leaves spaces at the end where a number became shorter.
    assert c.get("n") == 0
    c.set("n", "words")
    assert raises(ValueError, lambda: c.incr("n"))


@check
def delete_and_touch_say_whether_it_was_there(address):
    c = client(address)
    assert not c.delete("missing") and not c.touch("missing", 100)
    c.set("a", "1", time=100)
    assert c.touch("a", 200) and c.get("a") == "1"
    assert c.touch("a", -1) and c.get("a") is None
    c.set("a", "1")
    assert c.delete("a") and c.get("a") is None
    c.set("a", "1", time=-1)
    assert c.get("a") is None


@check
def noreply_leaves_the_conversation_in_step(address):
    c = client(address)
    for i in range(100):
        c.set(f"k{i}", "1", noreply=True)
        c.incr(f"k{i}", 4, noreply=True)
        c.decr(f"k{i}", 2, noreply=True)
        c.append(f"k{i}", "0", noreply=True)
        c.prepend(f"k{i}", "2", noreply=True)
        c.touch(f"k{i}", 100, noreply=True)
    c.delete("k0", noreply=True)
    c.add("k1", "no", noreply=True)
    c.replace("k2", "yes", noreply=True)
    c.set_multi({"m1": "1", "m2": "2"}, noreply=True)
    c.delete_multi(["m1"], noreply=True)
    assert c.get("k99") == "230" and c.get("k0") is None and c.get("k1") == "230" and c.get("k2") == "yes"
    assert c.get("m1") is None and c.get("m2") == "2"


@check
def keys_to_the_limit(address):
    c = client(address)
    longest = "k" * 250
    assert c.set(longest, "1") and c.get(longest) == "1"
    assert raises(memcache.Client.MemcachedKeyLengthError, lambda: c.set(longest + "k", "1"))
    assert raises(memcache.Client.MemcachedKeyCharacterError, lambda: c.get("a b"))
    assert c.set("schlüssel", "1") and c.get("schlüssel") == "1"
    assert c.set((7, "chosen"), "1") and c.get((7, "chosen")) == "1"
    encoded = client(address, key_encoder=lambda key: key.replace(" ", "_"))
    assert encoded.set("a b", "1") and c.get("a_b") == "1"


@check
def too_large_is_refused_and_the_connection_lives(address):
    c = client(address, server_max_value_length=5_000_000)
    c.set("a", b"old")
    assert not c.set("a", b"x" * (2 << 20))
    assert c.set("b", "1") and c.get("b") == "1" and c.get("a") is None


@check
def the_server_is_asked_about_itself(address):
    c = client(address)
    c.set("a", "1")
    [(_, statistics)] = c.get_stats()
    assert int(statistics["pid"]) > 0 and int(statistics["curr_items"]) >= 1
    assert int(c.get_stats("settings")[0][1]["maxconns"]) > 0
    [(_, slabs)] = c.get_slab_stats()
    assert slabs


@check
def quit_and_disconnect_are_survived(address):
    c = client(address)
    c.set("a", "1")
    c.quit_all()
    assert c.get("a") == "1"
    c.disconnect_all()
    assert c.get("a") == "1"
    c.forget_dead_hosts()
    c.flush_all()
    assert c.get("a") is None


@check
def threads_have_connections_of_their_own(address):
    c = client(address)
    c.set("n", 0)

    def count():
        for _ in range(100):
            c.incr("n")
        c.disconnect_all()

    threads = [threading.Thread(target=count) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert c.get("n") == 800


run(sys.argv[-1])
