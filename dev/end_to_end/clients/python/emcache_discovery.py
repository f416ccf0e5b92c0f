"""emcache's auto-discovery: it follows the members in the file of `--cluster-file`.

Arguments: the file, and the addresses of three members, each a server or a router that reads it.
"""

import asyncio
import os
import socket
import sys
import time

import emcache
from check import check, run

# For failures only: the machine may be busy.
PATIENCE_S = 60

KEYS = [b"key%d" % number for number in range(300)]


class Cluster:
    """The file, and the members that it may name."""

    def __init__(self, file, members):
        self.file = file
        self.members = [(host, int(port)) for host, port in (member.rsplit(":", 1) for member in members)]
        self.revision = 0

    def name(self, count):
        """Names the first members in the file, and waits until all have read it."""
        self.revision += 1
        lines = [f"{host}|{host}|{port}\n" for host, port in self.members[:count]]
        self.write(f"{self.revision}\n" + "".join(lines))
        self.wait_for("evenkeel_cluster_revision", self.revision)

    def write(self, text):
        with open(self.file + ".new", "w") as file:
            file.write(text)
        os.rename(self.file + ".new", self.file)

    def wait_for(self, name, value):
        for member in range(len(self.members)):
            end = time.monotonic() + PATIENCE_S
            while self.figure(member, name) != value:
                assert time.monotonic() < end, f"{name} of member {member}"
                time.sleep(0.05)

    def figure(self, member, *names):
        """A statistic, under the first of these names that is there."""
        with socket.create_connection(self.members[member], PATIENCE_S) as connection:
            connection.sendall(b"stats\r\n")
            reply = b""
            while not reply.endswith(b"END\r\n"):
                reply += connection.recv(65536)
        lines = [line.split(" ", 2) for line in reply.decode().splitlines() if line.startswith("STAT ")]
        figures = {name: value for _, name, value in lines}
        return next(int(figures[name]) for name in names if name in figures)

    def sets(self, member):
        """Keys that have reached a member: a server or a router."""
        return self.figure(member, "cmd_set_count", "cmd_set")


async def client_of(cluster):
    """A client that knows only the first member."""
    host, port = cluster.members[0]
    return await emcache.create_client(
        [emcache.MemcachedHostAddress(host, port)],
        timeout=PATIENCE_S,
        autodiscovery=True,
        autodiscovery_poll_interval=0.1,
        autodiscovery_timeout=PATIENCE_S,
    )


def nodes(client):
    """How many members the client has."""
    return len(client._cluster.nodes)


async def reaches(client, count):
    """Waits until the client has so many members."""
    end = time.monotonic() + PATIENCE_S
    while nodes(client) != count:
        assert time.monotonic() < end, f"{nodes(client)} members"
        await asyncio.sleep(0.05)


async def set_all(client):
    for key in KEYS:
        await client.set(key, key)
        assert (await client.get(key)).value == key


@check
def the_client_finds_the_members(cluster):
    async def body():
        cluster.name(2)
        client = await client_of(cluster)
        await reaches(client, 2)
        before = [cluster.sets(member) for member in range(3)]
        await set_all(client)
        gained = [cluster.sets(member) - count for member, count in enumerate(before)]
        assert gained[0] > 50 and gained[1] > 50 and gained[2] == 0, gained
        await client.close()

    asyncio.run(body())


@check
def keys_reach_a_member_that_is_added_and_leave_one_that_is_removed(cluster):
    async def body():
        cluster.name(2)
        client = await client_of(cluster)
        await reaches(client, 2)
        cluster.name(3)
        await reaches(client, 3)
        before = cluster.sets(2)
        await set_all(client)
        added = cluster.sets(2)
        assert added - before > 50, (before, added)
        cluster.name(2)
        await reaches(client, 2)
        await set_all(client)
        assert cluster.sets(2) == added
        await client.close()

    asyncio.run(body())


@check
def what_cannot_be_used_changes_nothing(cluster):
    async def body():
        cluster.name(3)
        client = await client_of(cluster)
        await reaches(client, 3)
        for text in ["", "no list\n", "1\na||1\n", f"{cluster.revision}\na||1\n", f"{cluster.revision + 1}\na||1"]:
            cluster.write(text)
            cluster.wait_for("evenkeel_cluster_file_current", 0)
            await client._cluster.autodiscover()
            assert nodes(client) == 3, text
        await set_all(client)
        await client.close()

    asyncio.run(body())


run(Cluster(sys.argv[1], sys.argv[2:5]))
