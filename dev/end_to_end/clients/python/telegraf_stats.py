"""What telegraf's input plugin for memcached reads from the server at host:port: one `stats`, whose lines must all be
`STAT name value`, and in there the fields that it stores, by name. A value that is not a whole number of 64 bits would be
stored as text, and no graph could show it."""

import socket
import sys
import time

from check import check, run

# The plugin's list, without those of extstore.
FIELDS = """
accepting_conns auth_cmds auth_errors bytes bytes_read bytes_written cas_badval cas_hits cas_misses cmd_flush cmd_get
cmd_set cmd_touch conn_yields connection_structures curr_connections curr_items decr_hits decr_misses delete_hits
delete_misses evicted_active evicted_unfetched evictions expired_unfetched get_expired get_flushed get_hits get_misses
hash_bytes hash_is_expanding hash_power_level incr_hits incr_misses limit_maxbytes listen_disabled_num max_connections
reclaimed rejected_connections store_no_memory store_too_large threads total_connections total_items touch_hits
touch_misses uptime
""".split()


def exchange(address, requests, end):
    """Sends requests on a connection of its own and reads until the end of the last reply."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(requests)
        said = b""
        while not said.endswith(end):
            piece = connection.recv(65536)
            assert piece, said
            said += piece
    return said


def gather(address):
    """The fields as telegraf stores them: numbers, or text where one is none."""
    values = {}
    lines = exchange(address, b"stats\r\n", b"END\r\n").decode("ascii").split("\r\n")
    assert lines[-2:] == ["END", ""]
    for line in lines[:-2]:
        word, name, value = line.split(" ", 2)
        assert word == "STAT" and name not in values, line
        values[name] = value
    return {name: number(values[name]) for name in FIELDS if name in values}


def number(text):
    """A whole number of 64 bits in plain decimal digits, or the text."""
    is_number = text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()
    return int(text) if is_number and -(2**63) <= int(text) < 2**63 else text


@check
def every_field_is_there_and_a_number(address):
    found = gather(address)
    assert sorted(found) == sorted(FIELDS), set(FIELDS) - set(found)
    for name, value in found.items():
        assert isinstance(value, int) and value >= 0, (name, value)


@check
def they_count_what_was_done(address):
    before = gather(address)
    requests = [
        (b"set telegraf 0 0 1\r\n5\r\n", 1, "cmd_set total_items"),
        (b"get telegraf\r\n", 1, "cmd_get get_hits"),
        (b"get missing\r\n", 1, "cmd_get get_misses"),
        (b"incr telegraf 1\r\n", 1, "incr_hits"),
        (b"incr missing 1\r\n", 1, "incr_misses"),
        (b"decr telegraf 1\r\n", 1, "decr_hits"),
        (b"decr missing 1\r\n", 1, "decr_misses"),
        (b"touch telegraf 100\r\n", 1, "cmd_touch touch_hits"),
        (b"touch missing 100\r\n", 1, "cmd_touch touch_misses"),
        (b"cas telegraf 0 0 1 0\r\n5\r\n", 1, "cas_badval"),
        (b"cas missing 0 0 1 0\r\n5\r\n", 1, "cas_misses"),
        (b"delete telegraf\r\n", 1, "delete_hits"),
        (b"delete missing\r\n", 1, "delete_misses"),
    ]
    exchange(address, b"".join(request for request, _, _ in requests) + b"mn\r\n", b"MN\r\n")
    after = gather(address)
    expected = {}
    for _, count, names in requests:
        for name in names.split():
            expected[name] = expected.get(name, 0) + count
    # A cas, and incr and decr, count in others, too: at least so much.
    grown = {name: after[name] - before[name] for name in expected}
    assert all(grown[name] >= count for name, count in expected.items()), (grown, expected)
    exact = [name for name in expected if name.endswith(("_hits", "_misses", "_badval"))]
    assert all(grown[name] == expected[name] for name in exact), (grown, expected)
    assert after["bytes_read"] > before["bytes_read"]
    # Bytes are written when the kernel has taken them, and counted a moment later: a client may have them before.
    written = after["bytes_written"]
    for _ in range(600):
        if written > before["bytes_written"]:
            break
        time.sleep(0.1)
        written = gather(address)["bytes_written"]
    assert written > before["bytes_written"]
    assert after["total_connections"] >= before["total_connections"] + 2


@check
def what_the_server_was_given_is_there(address):
    found = gather(address)
    assert found["limit_maxbytes"] == 256 << 20 and found["max_connections"] > 0 and found["threads"] > 0
    assert found["accepting_conns"] == 1 and found["curr_connections"] >= 1


run(sys.argv[-1])
