#!/bin/sh
# Two network namespaces on this machine, to try a how-to without touching the host's own network: a server at 10.77.0.1,
# whose interface is called eth0, and a client at 10.77.0.2. Everything in them ends with this script.
#
#   sh docs/tune/howto/lab.sh                a shell in the lab; `on_client COMMAND` runs something at the client
#   sh docs/tune/howto/lab.sh FILE           runs the commands in FILE
#   QUEUES=1 sh docs/tune/howto/lab.sh       with another number of queues than 4
#
# Needs root, iproute2, util-linux, and `evenkeel` in PATH.
set -eu
if [ -z "${IN_LAB:-}" ]; then
    IN_LAB=1 exec unshare --net --mount --pid --fork --mount-proc --kill-child sh "$0" "$@"
fi
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /var/lib # the journals
mount -t tmpfs tmpfs /mnt
commands=${1:+$(realpath "$1")}
cd /mnt

unshare --net sleep infinity &
client=$!
on_client() { nsenter --target "$client" --net -- "$@"; }
# The client has a namespace of its own once it is not in ours any more.
until [ "$(readlink /proc/$client/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
queues=${QUEUES:-4}
ip link add eth0 numrxqueues "$queues" numtxqueues "$queues" type veth \
    peer name eth0 numrxqueues "$queues" numtxqueues "$queues" netns "$client"
ip link set lo up
ip address add 10.77.0.1/24 dev eth0
ip link set eth0 up
on_client ip address add 10.77.0.2/24 dev eth0
on_client ip link set eth0 up

# A virtual interface has NAPI while it gathers received packets (GRO), and takes packets through it while its peer does not
# leave segmentation to it (TSO). `offload` switches them as `ethtool -K eth0 gro on` does (ETHTOOL_SGRO, ETHTOOL_STSO).
napi_of_virtual_interface() {
    if command -v ethtool > /dev/null; then
        ethtool -K eth0 gro on
        on_client ethtool -K eth0 tso off
    else
        offload python3 0x2C 1
        offload "on_client python3" 0x1F 0
    fi
}
offload() {
    $1 -c "
import array, fcntl, socket, struct
command = array.array('I', [$2, $3])
fcntl.ioctl(socket.socket(), 0x8946, struct.pack('16sP16x', b'eth0', command.buffer_info()[0]))"
}

# The server has the last CPU, the client's load the first.
last=$(($(nproc) - 1))
taskset -c "$last" evenkeel serve -l 10.77.0.1 -u root -t 1 -b 64 &
server=$!
until grep -q ' 01004D0A:2BCB ' /proc/net/tcp; do
    kill -0 $server
    sleep 0.1
done
on_client evenkeel load --server 10.77.0.1:11211 --prefill --duration 1s --warm-up 0 > /dev/null
if [ -n "$commands" ]; then
    . "$commands"
else
    cat > lab.rc << END
on_client() { nsenter --target $client --net -- "\$@"; }
server=$server last=$last
END
    ENV=lab.rc sh -i
fi
