"""The statistics of a router of one server at host:port, as pymemcache reads them."""

import sys

from check import check, run
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError


def client(address):
    return Client(address, connect_timeout=60, timeout=60, default_noreply=False)


@check
def statistics_are_counted(address):
    c = client(address)
    assert c.set("a", "1")
    assert c.get("a") == b"1"
    stats = c.stats()
    assert int(stats[b"cmd_get_count"]) == 1, stats
    assert int(stats[b"num_servers_up"]) == 1, stats
    servers = c.stats("servers")
    assert len(servers) == 1, servers
    name, line = next(iter(servers.items()))
    assert b":ascii:plain:notcompressed-1000" in name, name
    # Of a value with spaces pymemcache keeps the first word.
    assert line.startswith(b"avg_latency_us:"), line
    assert c.stats("suspect_servers") == {}


@check
def keys_about_the_router_are_values(address):
    c = client(address)
    assert c.get("__mcrouter__.version") == b"1.6.45"
    assert c.set("b", "2")
    many = c.get_many(["b", "__mcrouter__.hostid", "none"])
    assert set(many) == {"b", "__mcrouter__.hostid"}, many
    assert int(many["__mcrouter__.hostid"]) >= 0, many


@check
def an_unknown_group_is_an_error(address):
    try:
        client(address).stats("nothing")
    except MemcacheClientError as error:
        assert "bad stats command" in str(error), error
    else:
        raise AssertionError("it was answered")


host, port = sys.argv[-1].rsplit(":", 1)
run((host, int(port)))
