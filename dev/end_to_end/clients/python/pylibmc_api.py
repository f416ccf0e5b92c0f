"""The whole of pylibmc, which is libmemcached, against the server at host:port; with `binary` before it in that protocol,
with `sasl` in that protocol as a user of that server."""

import glob
import os
import sys
import threading

# The SASL library in the package from PyPI looks for its mechanisms elsewhere than Debian has them. It reads this once.
os.environ.setdefault("SASL_PATH", ":".join(glob.glob("/usr/lib/*/sasl2")))

import pylibmc
from check import check, raises, run

SASL = "sasl" in sys.argv[1:-1]
BINARY = SASL or "binary" in sys.argv[1:-1]
USER = {"username": "me", "password": "secret"} if SASL else {}


def client(address, **options):
    """A fresh client of an empty server."""
    # A busy machine may keep an answer back for longer than the few seconds that libmemcached waits by itself.
    patience = {"connect_timeout": 60_000, "_poll_timeout": 60_000}
    behaviors = {"tcp_nodelay": True, "cas": True, **patience}
    if not BINARY:  # where keys may have any bytes, libmemcached does not verify them
        behaviors["verify_keys"] = True
    behaviors.update(options)
    fresh = pylibmc.Client([address], binary=BINARY, behaviors=behaviors, **USER)
    fresh.flush_all()
    return fresh


@check
def values_keep_their_type(address):
    c = client(address)
    assert c.get("a") is None and c.get("a", "default") == "default" and "a" not in c
    for value in (b"", b"bytes", "text", 7, -7, 3.5, True, None, [1, {"a": (2,)}], b"x" * 500_000):
        assert c.set("a", value)
        assert c.get("a") == value
    assert "a" in c


@check
def add_and_replace_mind_what_is_there(address):
    c = client(address)
    # The protocols have different errors for it.
    assert raises(pylibmc.NotFound, lambda: c.replace("a", "1")) if BINARY else c.replace("a", "1") is False
    assert c.add("a", "1") is True
    assert c.add("a", "2") is False and c.replace("a", "3") is True and c.get("a") == "3"


@check
def append_and_prepend_lengthen(address):
    c = client(address)
    c.set("a", "m")
    assert c.append("a", "z") and c.prepend("a", "a") and c.get("a") == "amz"
    assert not c.append("missing", "x") and not c.prepend("missing", "x")


@check
def cas_stores_once(address):
    c = client(address)
    c.set("a", "1")
    value, token = c.gets("a")
    assert value == "1" and c.cas("a", "2", token) is True and c.cas("a", "3", token) is False
    assert c.get("a") == "2" and c.gets("missing") == (None, None)
    assert raises(pylibmc.NotFound, lambda: c.cas("missing", "x", token))


@check
def many_at_once(address):
    c = client(address)
    values = {f"key{i}": f"value{i}" for i in range(500)}
    assert c.set_multi(values) == [] and c.get_multi(list(values) + ["missing"]) == values
    assert sorted(c.add_multi({"key1": "no", "new": "yes"})) == ["key1"]
    assert c.set_multi({"a": 1, "b": 2}, key_prefix="p:") == []
    assert c.get_multi(["a", "b"], key_prefix="p:") == {"a": 1, "b": 2} and c.get("p:a") == 1
    assert c.delete_multi(list(values)) is True and c.get_multi(list(values)) == {}
    assert c.delete_multi(["a", "b"], key_prefix="p:") is True


@check
def numbers_count(address):
    c = client(address)
    assert raises(pylibmc.NotFound, lambda: c.incr("n"))
    c.set("n", 10)
    assert c.incr("n") == 11 and c.incr("n", 5) == 16 and c.decr("n") == 15 and c.decr("n", 100) == 0
    c.set("m", 1)
    c.incr_multi(["n", "m"], delta=3)
    assert int(c.get("n")) == 3 and int(c.get("m")) == 4


@check
def delete_and_touch(address):
    c = client(address)
    assert c.delete("a") is False
    c.set("a", "1", time=100)
    # libmemcached waits in vain after a binary touch, with memcached as well.
    assert BINARY or c.touch("a", 200) and c.get("a") == "1"
    assert c.delete("a") is True and c.get("a") is None and (BINARY or not c.touch("a", 1))


@check
def compression_is_the_clients_affair(address):
    c = client(address)
    text = "compress me " * 10_000
    assert c.set("a", text, min_compress_len=100) and c.get("a") == text
    assert c.set_multi({"b": text}, min_compress_len=100) == [] and c.get_multi(["b"]) == {"b": text}


@check
def keys_to_the_limit(address):
    c = client(address)
    longest = "k" * 250
    assert c.set(longest, 1) and c.get(longest) == 1
    assert raises(Exception, lambda: c.set("k" * 251, 1))


@check
def silent_requests_arrive(address):
    c = client(address, no_block=True, _noreply=True)
    for i in range(1000):
        c.set(f"k{i}", i)
    # The same connection answers in order, so what is read now comes after what was written before.
    assert c.get_multi([f"k{i}" for i in range(1000)]) == {f"k{i}": i for i in range(1000)}


@check
def the_server_is_asked_about_itself(address):
    c = client(address)
    ((name, stats),) = c.get_stats()
    assert int(stats["curr_items"]) >= 0 and int(stats["pid"]) > 0


@check
def hashing_behaviours_work(address):
    c = client(address, ketama=True, hash="md5")
    assert c.set_multi({str(i): i for i in range(100)}) == []
    assert c.get_multi([str(i) for i in range(100)]) == {str(i): i for i in range(100)}


@check
def a_pool_serves_threads(address):
    pool = pylibmc.ThreadMappedPool(client(address))
    with pool.reserve() as c:
        c.set("n", 0)

    def count():
        with pool.reserve() as c:
            for _ in range(200):
                c.incr("n")
        pool.relinquish()

    threads = [threading.Thread(target=count) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    with pool.reserve() as c:
        assert int(c.get("n")) == 1600


@check
def disconnecting_is_survived(address):
    c = client(address)
    c.set("a", 1)
    c.disconnect_all()
    assert c.get("a") == 1


@check
def only_the_users_password_lets_in(address):
    if not SASL:
        return
    assert pylibmc.support_sasl
    for user in ({}, {"username": "me", "password": "wrong"}, {"username": "nobody", "password": "secret"}):
        stranger = pylibmc.Client([address], binary=True, **user)
        assert raises(pylibmc.Error, lambda: stranger.set("a", "stranger")), user
    c = client(address)
    assert c.get("a") is None
    # Each connection logs in, also the one that follows another.
    c.set("a", 1)
    c.disconnect_all()
    assert c.get("a") == 1


run(sys.argv[-1])
