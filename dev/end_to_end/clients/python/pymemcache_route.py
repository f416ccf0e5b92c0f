"""pymemcache against a router at host:port, with what a router of several servers can do."""

import sys

from check import check, run
from pymemcache.client.base import Client, PooledClient


def client(address, kind=Client):
    return kind(address, connect_timeout=60, timeout=60, default_noreply=False)


@check
def many_keys_go_and_come_together(address):
    c = client(address)
    values = {f"many{i}": str(i).encode() for i in range(100)}
    assert c.set_many(values) == []
    assert c.get_many(values) == values
    assert c.delete_many(list(values)) is True
    assert c.get_many(values) == {}


@check
def noreply_is_ordered_before_what_follows(address):
    c = client(address)
    for i in range(100):
        c.set("quiet", str(i), noreply=True)
    assert c.get("quiet") == b"99"


@check
def values_come_back_as_they_went(address):
    c = client(address)
    for value in (b"", b"\r\n", bytes(range(256)), b"END\r\n" * 10, b"v" * 1_000_000):
        assert c.set("a", value) is True
        assert c.get("a") == value


@check
def every_command_answers(address):
    c = client(address, PooledClient)
    c.delete("b")
    assert c.replace("b", "1") is False and c.add("b", "1") is True and c.add("b", "2") is False
    assert c.append("b", "0") is True and c.prepend("b", "2") is True and c.get("b") == b"210"
    assert c.incr("b", 5) == 215 and c.decr("b", 300) == 0
    value, token = c.gets("b")
    assert c.cas("b", "x", token) is True and c.cas("b", "y", token) is False
    assert c.touch("b", 100) is True and c.delete("b") is True and c.delete("b") is False


host, port = sys.argv[-1].rsplit(":", 1)
run((host, int(port)))
