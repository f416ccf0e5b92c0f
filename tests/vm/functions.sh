# Words of the conversations.

# The interrupts of an interface: name, affinity, where the last one was taken.
interrupts() {
    for irq in $(ls /sys/class/net/"$1"/device/../msi_irqs | sort -n); do
        echo "$(cat /sys/kernel/irq/"$irq"/actions) $(cat /proc/irq/"$irq"/smp_affinity_list)" \
            "$(cat /proc/irq/"$irq"/effective_affinity_list)"
    done
}

# The number of the interrupt with this handler.
irq() {
    grep -lx "$1" /sys/kernel/irq/*/actions | cut -d/ -f5
}

# The affinities of all interrupts, byte for byte.
affinities() {
    grep . /proc/irq/*/smp_affinity
}

# A text with the names of interrupts, whose numbers differ from kernel to kernel.
named() {
    sed "$(for irq in $(ls /sys/kernel/irq); do
        echo "s@/irq/$irq/@/irq/$(cat /sys/kernel/irq/"$irq"/actions)/@"
    done)"
}

# How many lines say so, those included that are folded into one.
count() {
    grep "$1" | sed 's/.*(and \([0-9]*\) more like it)$/\1/; t; s/.*/0/' | awk '{ n += $1 + 1 } END { print n + 0 }'
}

# How an interface's packets are steered, byte for byte.
steering() {
    grep . /proc/sys/net/core/rps_sock_flow_entries /sys/class/net/"$1"/queues/rx-*/rps_*
}

# CPUs that packets were steered to so far.
steered() {
    awk '$10 != "00000000" { print NR - 1 }' /proc/net/softnet_stat
}

# Where a plan is made: the head of its text.
made() {
    printf '{"made":{"host":"%s","boot_id":"%s","network":"%s"},' "$(cat /proc/sys/kernel/hostname)" \
        "$(cat /proc/sys/kernel/random/boot_id)" "$(readlink /proc/self/ns/net)"
}

# A plan with one change: path, what it holds, now, wanted.
change() {
    made
    printf '"changes":[{"stage":"affinity","setting":{"file":{"path":"%s","holds":"%s"}},' "$1" "$2"
    printf '"now":"%s","wanted":"%s","why":"","asked_by":"","risk":"low","signal":""}]}' "$3" "$4"
}

# Packets from each CPU, whose answers come back to the queue that the CPU sends through; until this command succeeds.
traffic() {
    address=$1
    shift
    for round in 1 2 3 4 5 6 7 8; do
        for cpu in 0 1 2 3 4 5 6 7; do
            taskset -c $cpu ping -q -c 3 -i 0.05 "$address" > /tmp/ping 2>&1 || cat /tmp/ping
        done
        "$@" && return
    done
    echo "$* has failed for $round rounds"
}

# Whether every interrupt of an interface's queues has followed its affinity; those of queues out of use never come.
followed() {
    interrupts "$1" | awk -F '[. ]' -v queues="$(ls -d /sys/class/net/"$1"/queues/rx-* | wc -l)" '
        /put/ && $2 < queues && $3 != $4 { behind = 1 }
        END { exit behind }'
}

# Policy (0 fair, 1 FIFO) and real-time priority of each thread of a process, sorted and counted.
policies() {
    for thread in /proc/"$1"/task/*; do
        sed 's/.*) //' "$thread/stat"
    done | awk '{ print "policy", $39, "priority", $38 }' | sort | uniq -c
}
