#!/bin/busybox sh
# The machine's first program: prepares it, runs the steps, and powers it off.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for module in /modules/*; do insmod "$module" || echo "insmod $module: failed" > /dev/console; done
echo root:x:0:0:root:/:/bin/sh > /etc/passwd
ip link set lo up
for number in 0 1; do
    ip address add 10.9.$number.2/24 dev eth$number
    ip link set eth$number up
done
# The kernel reports the state of a link some time later.
for number in 0 1; do
    tries=0
    until grep -q up /sys/class/net/eth$number/operstate || [ $((tries += 1)) -gt 100 ]; do usleep 100000; done
done
exec > /dev/ttyS1 2>&1
stty raw -F /dev/ttyS1
echo "@ booted $(cut -d' ' -f1 /proc/uptime)"
for step in /steps/*; do
    read -r _ name < "$step"
    echo "@ $name"
    status=0
    # A step that hangs is killed, and the next ones run.
    timeout -s KILL 60 sh -c '. /functions.sh; . "$0"' "$step" < /dev/null > /tmp/said 2>&1 || status=$?
    # The last line may lack a line end.
    awk 1 /tmp/said
    echo "@ ended $status"
done
poweroff -f
