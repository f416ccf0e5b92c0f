"""The whole of aiomcache against the server at host:port."""

import asyncio
import json
import sys

import aiomcache
from aiomcache.exceptions import ClientException, ValidationException
from check import check, run


def client(address, kind=aiomcache.Client, **options):
    host, port = address.rsplit(":", 1)
    return kind(host, int(port), **options)


def with_client(function):
    """A check that is a coroutine: it gets a fresh client of an empty server."""

    async def run_it(address):
        c = client(address, pool_size=4)
        try:
            await c.flush_all()
            # No answer takes a minute but one that never comes.
            await asyncio.wait_for(function(c, address), 60)
        finally:
            await c.close()

    def in_a_loop(address):
        asyncio.run(run_it(address))

    in_a_loop.__name__ = function.__name__
    return check(in_a_loop)


async def fails(error, action):
    try:
        await action
    except error:
        return True
    return False


@with_client
async def values_come_back_as_they_went(c, address):
    assert await c.get(b"a") is None and await c.get(b"a", b"default") == b"default"
    for value in (b"", b"x", b"\r\n", bytes(range(256)), b"END\r\n" * 10, b"v" * 1_000_000):
        assert await c.set(b"a", value) is True
        assert await c.get(b"a") == value


@with_client
async def add_and_replace_mind_what_is_there(c, address):
    assert await c.replace(b"a", b"1") is False and await c.add(b"a", b"1") is True
    assert await c.add(b"a", b"2") is False and await c.replace(b"a", b"3") is True
    assert await c.get(b"a") == b"3"


@with_client
async def append_and_prepend_lengthen(c, address):
    assert await c.append(b"a", b"x") is False and await c.prepend(b"a", b"x") is False
    await c.set(b"a", b"m")
    assert await c.append(b"a", b"z") is True and await c.prepend(b"a", b"a") is True
    assert await c.get(b"a") == b"amz"


@with_client
async def cas_stores_once(c, address):
    assert await c.gets(b"a") == (None, None) and await c.gets(b"a", b"default") == (b"default", None)
    assert await c.cas(b"a", b"x", 1) is False
    await c.set(b"a", b"1")
    value, token = await c.gets(b"a")
    assert value == b"1" and await c.cas(b"a", b"2", token) is True and await c.cas(b"a", b"3", token) is False
    assert await c.get(b"a") == b"2"


@with_client
async def many_at_once(c, address):
    keys = [f"key{i}".encode() for i in range(500)]
    assert all(await asyncio.gather(*(c.set(key, key) for key in keys)))
    assert await c.multi_get(*keys, b"missing") == (*keys, None)
    assert await c.multi_get() == ()
    assert await fails(ClientException, c.multi_get(b"key1", b"key1"))


@with_client
async def numbers_count(c, address):
    assert await fails(ClientException, c.incr(b"n")) and await fails(ClientException, c.decr(b"n"))
    await c.set(b"n", b"10")
    assert await c.incr(b"n", 5) == 15 and await c.decr(b"n", 6) == 9 and await c.decr(b"n", 100) == 0
    await c.set(b"n", str(2**64 - 1).encode())
    assert await c.incr(b"n", 2) == 1
    await c.set(b"n", b"words")
    assert await fails(ClientException, c.incr(b"n"))
    assert await c.get(b"n") == b"words"


@with_client
async def delete_and_touch_say_whether_it_was_there(c, address):
    assert await c.delete(b"a") is False and await c.touch(b"a", 100) is False
    await c.set(b"a", b"1", exptime=100)
    assert await c.touch(b"a", 200) is True and await c.get(b"a") == b"1"
    assert await c.touch(b"a", -1) is True and await c.get(b"a") is None
    await c.set(b"a", b"1")
    assert await c.delete(b"a") is True and await c.get(b"a") is None


@with_client
async def flags_carry_a_type(c, address):
    async def to_bytes(value):
        return json.dumps(value).encode(), 7

    async def from_bytes(value, flags):
        assert flags == 7
        return json.loads(value)

    with_flags = client(address, aiomcache.FlagClient, set_flag_handler=to_bytes, get_flag_handler=from_bytes)
    assert await with_flags.set(b"tree", {"a": [1, None]}) is True
    assert await with_flags.get(b"tree") == {"a": [1, None]}
    await with_flags.close()
    assert await fails(ClientException, c.get(b"tree"))


@with_client
async def keys_to_the_limit(c, address):
    longest = b"k" * 250
    assert await c.set(longest, b"1") is True and await c.get(longest) == b"1"
    assert await fails(ValidationException, c.set(longest + b"k", b"1"))
    assert await c.set("schlüssel".encode(), b"1") is True and await c.get("schlüssel".encode()) == b"1"


@with_client
async def too_large_is_an_error_and_the_connection_lives(_, address):
    # One connection: the next request follows on that of the refused one.
    c = client(address, pool_size=1)
    await c.set(b"a", b"old")
    assert await fails(ClientException, c.set(b"a", b"x" * (2 << 20)))
    await c.set(b"b", b"1")
    assert await c.get(b"b") == b"1" and await c.get(b"a") is None
    await c.close()


@with_client
async def version_and_flush(c, address):
    assert await c.version()
    await c.set(b"a", b"1")
    await c.flush_all()
    assert await c.get(b"a") is None


@with_client
async def the_server_is_asked_about_itself(c, address):
    assert int((await c.stats())[b"pid"]) > 0
    assert int((await c.stats(b"settings"))[b"maxconns"]) > 0
    await c.set(b"a", b"1")
    assert any(name.endswith(b":number") for name in await c.stats(b"items"))


@with_client
async def a_pool_serves_tasks(c, address):
    await c.set(b"n", b"0")

    async def count():
        for _ in range(100):
            await c.incr(b"n", 1)

    await asyncio.gather(*(count() for _ in range(16)))
    assert await c.get(b"n") == b"1600"


run(sys.argv[-1])
