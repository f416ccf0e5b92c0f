#!/bin/busybox sh
# The first program of a subject's virtual machine: makes it ready, starts the subject, and ends with it. What it says
# itself begins with "guest: ".
/bin/busybox mkdir -p /busybox /proc /sys /dev /tmp /run /var/tmp /root
/bin/busybox --install -s /busybox
export PATH=/busybox
end() {
    echo "guest: $1"
    poweroff -f
}
give_up() {
    end "cannot go on: $1"
}
mount -t proc proc /proc
echo "guest: Linux $(uname -r)"
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
chmod 1777 /tmp /var/tmp /dev/shm
[ -e /bin/sh ] || ln -s /bin/busybox /bin/sh
for module in /guest/modules/*; do
    [ ! -e "$module" ] || insmod "$module" || give_up "the kernel does not take ${module##*/}"
done
[ -e /sys/class/net/eth0 ] || give_up "there is no network interface: the kernel has no virtio_net, nor is it among its modules"
# They appear some time after their driver.
if [ -e /guest/disks ]; then
    read -r disks < /guest/disks
    tries=0
    until [ "$(ls /sys/block | grep -c '^nvme')" -ge "$disks" ]; do
        [ $((tries += 1)) -le 600 ] || give_up "there are fewer than $disks disks: the kernel has no nvme, nor is it among its modules"
        sleep 0.1
    done
fi
ip link set lo up
# The host's 127.0.0.1 is this machine's: a subject that listens there is reached, too.
echo 1 > /proc/sys/net/ipv4/conf/eth0/route_localnet
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
while read -r path value; do
    { echo "$value" > "/proc/sys/$path"; } 2> /dev/null || give_up "sysctl $path cannot be set to $value"
    set -- $(cat "/proc/sys/$path")
    [ "$*" = "$value" ] || give_up "sysctl $path was set to $value and reads $*"
done < /guest/sysctl
# It listens: now the machine's work is laid out and looked at, if that is asked for.
go_on() {
    [ -e /guest/inside ] || { echo "guest: listens"; return; }
    read -r strategy every ours < /guest/inside
    "$ours" lab inside --strategy "$strategy" --nic eth0 --subject "$1" --samples /dev/ttyS1 --every "$every" --state /run/lab \
        2> /tmp/why || give_up "$(sed 's/^evenkeel: lab: //' /tmp/why | tr '\n' ' ')"
}
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox
sh /guest/start &
subject=$!
export PATH=/busybox
if [ -e /guest/port ]; then
    read -r port < /guest/port
    listens=$(printf ':%04X 0*:0000 0A' "$port")
    # The kernel is asked: a connection to see whether it is open would be the first that the subject has.
    (until grep -q "$listens" /proc/net/tcp /proc/net/tcp6 2> /dev/null; do sleep 0.1; done; go_on "$subject") &
fi
wait "$subject"
status=$?
end "the subject ended with exit status $status"
