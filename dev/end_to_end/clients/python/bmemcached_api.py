"""The whole of bmemcached, a client of the binary protocol, against the server at host:port; with `sasl` before it as a
user of that server."""

import os
import sys

import bmemcached
from check import check, raises, run

USER = ("me", "secret") if "sasl" in sys.argv[1:-1] else (None, None)


def client(address, user=USER):
    """A fresh client of an empty server."""
    fresh = bmemcached.Client((address,), *user, socket_timeout=60)
    assert fresh.flush_all()
    return fresh


@check
def values_keep_their_type(address):
    c = client(address)
    assert c.get("a") is None and c.get("a", "default") == "default"
    for value in ("", "text", "ä", 7, -7, 2**40, True, None, [1, {"a": (2,)}], "x" * 500_000, "\r\n\0"):
        assert c.set("a", value)
        assert c.get("a") == value
    assert c.set("a", b"bytes\x80\x00") and c.get("a") == b"bytes\x80\x00"


@check
def add_and_replace_mind_what_is_there(address):
    c = client(address)
    assert c.replace("a", "1") is False and c.add("a", "1") is True
    assert c.add("a", "2") is False and c.replace("a", "3") is True and c.get("a") == "3"


@check
def cas_stores_once(address):
    c = client(address)
    c.set("a", "1")
    value, token = c.gets("a")
    assert value == "1" and token > 0
    assert c.cas("a", "2", token) is True and c.cas("a", "3", token) is False and c.get("a") == "2"
    assert c.cas("missing", "x", token) is False


@check
def many_at_once(address):
    c = client(address)
    values = {f"key{i}": f"value{i}" for i in range(500)}
    assert c.set_multi(values) == []
    assert c.get_multi(list(values) + ["missing"]) == values
    found = c.get_multi(["key1", "missing"], get_cas=True)
    assert list(found) == ["key1"] and found["key1"][0] == "value1" and found["key1"][1] > 0
    assert c.delete_multi(list(values)) is True and c.get_multi(list(values)) == {}


@check
def numbers_count(address):
    c = client(address)
    assert c.incr("n", 5, default=10) == 10 and c.incr("n", 5) == 15
    assert c.decr("n", 6) == 9 and c.decr("n", 100) == 0
    assert c.decr("m", 1, default=3) == 3


@check
def delete_says_whether_it_is_gone(address):
    c = client(address)
    c.set("a", "1", time=100)
    assert c.delete("a") is True and c.get("a") is None
    assert c.delete("a") is True, "bmemcached is content with what is not there"


@check
def keys_may_have_any_bytes(address):
    c = client(address)
    for key in ("k" * 250, "with space", "line\r\nend", "schlüssel"):
        assert c.set(key, key) and c.get(key) == key


@check
def too_large_is_an_error_and_the_connection_lives(address):
    c = client(address)
    # Random bytes, because values are compressed.
    assert raises(bmemcached.exceptions.MemcachedException, lambda: c.set("a", os.urandom(2 << 20)))
    assert c.set("b", "1") and c.get("b") == "1"


@check
def the_server_is_asked_about_itself(address):
    c = client(address)
    (stats,) = c.stats().values()
    assert int(stats["curr_items"]) >= 0 and int(stats["pid"]) > 0
    (settings,) = c.stats("settings").values()
    assert int(settings["maxconns"]) > 0


@check
def who_is_no_user_stores_nothing(address):
    if USER == (None, None):
        return
    for stranger in (("me", "wrong"), ("other", "secret"), (None, None)):
        c = bmemcached.Client((address,), *stranger, socket_timeout=60)
        assert raises(bmemcached.exceptions.MemcachedException, lambda: c.set("a", 1)) or not c.set("a", 1)
    assert client(address).get("a") is None


@check
def disconnecting_is_survived(address):
    c = client(address)
    c.set("a", 1)
    c.disconnect_all()
    c = bmemcached.Client((address,), *USER)
    assert c.get("a") == 1


run(sys.argv[-1])
