# Functions for the conversations.

# The interrupts of an interface: name, affinity, CPUs that handled the last one.
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

# A text with names in place of the numbers of interrupts, which differ between kernels.
named() {
    sed "$(for irq in $(ls /sys/kernel/irq); do
        echo "s@/irq/$irq/@/irq/$(cat /sys/kernel/irq/"$irq"/actions)/@"
    done)"
}

# The number of lines with this text, including lines that are folded into one.
count() {
    grep "$1" | sed 's/.*(and \([0-9]*\) more like it)$/\1/; t; s/.*/0/' | awk '{ n += $1 + 1 } END { print n + 0 }'
}

# The steering of an interface's packets, byte for byte.
steering() {
    grep . /proc/sys/net/core/rps_sock_flow_entries /sys/class/net/"$1"/queues/rx-*/rps_*
}

# CPUs to which packets were steered so far.
steered() {
    awk '$10 != "00000000" { print NR - 1 }' /proc/net/softnet_stat
}

# The origin of a plan: the head of its text.
made() {
    printf '{"made":{"host":"%s","boot_id":"%s","network":"%s"},' "$(cat /proc/sys/kernel/hostname)" \
        "$(cat /proc/sys/kernel/random/boot_id)" "$(readlink /proc/self/ns/net)"
}

# A plan with one change: path, kind of value, value now, new value.
change() {
    made
    printf '"changes":[{"stage":"affinity","setting":{"file":{"path":"%s","holds":"%s"}},' "$1" "$2"
    printf '"now":"%s","wanted":"%s","why":"","asked_by":"","risk":"low","signal":""}]}' "$3" "$4"
}

# Packets from each CPU, whose answers arrive in the queue through which the CPU sends; until this command succeeds.
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

# Whether every interrupt of an interface's queues has followed its affinity; those of unused queues never occur.
followed() {
    interrupts "$1" | awk -F '[. ]' -v queues="$(ls -d /sys/class/net/"$1"/queues/rx-* | wc -l)" '
        /put/ && $2 < queues && $3 != $4 { behind = 1 }
        END { exit behind }'
}

# The kernel's counters of TCP Fast Open with these names.
fast_open() {
    for name in "$@"; do
        awk -v name="TCPFastOpen$name" '/^TcpExt:/ && n { print name, $n } /^TcpExt:/ { for (i = 1; i <= NF; i++) if ($i == name) n = i }' \
            /proc/net/netstat
    done
}

# The median time from the SYN of 100 connections, one after the other, to their first answers, in microseconds: of opening
# them and of a request. Further arguments are those of `evenkeel load`.
first_answer_us() {
    evenkeel load --port 11611 --connections 1 --reconnect-after 1 --requests 100 --warm-up 0 --keys 10 "$@" \
        --json /tmp/load.json > /dev/null
    awk '/^  "latency": \{/ || /^    "latency": \{/ { getline; sum += $2; n++ } END { printf "%d\n", n == 2 ? sum : 0 }' \
        /tmp/load.json
}

# Policy (0 fair, 1 FIFO) and real-time priority of each thread of a process, sorted and counted.
policies() {
    for thread in /proc/"$1"/task/*; do
        sed 's/.*) //' "$thread/stat"
    done | awk '{ print "policy", $39, "priority", $38 }' | sort | uniq -c
}

# Starts a server with flash: its path, then further flags. Its process ID is in /tmp/pid afterwards.
flash_server() {
    path=$1
    shift
    evenkeel serve -u root -l 127.0.0.1 -p 11711 -t 2 -m 8 -o "ext_path=$path,ext_page_size=4" "$@" > /tmp/serve 2>&1 &
    echo $! > /tmp/pid
    until grep -q ' serves on ' /tmp/serve; do
        kill -0 $! 2> /dev/null || { wait $!; status=$?; cat /tmp/serve; return $status; }
        usleep 50000
    done
}

# Ends it with a signal, and waits for that.
end_flash_server() {
    kill "-$1" "$(cat /tmp/pid)"
    while kill -0 "$(cat /tmp/pid)" 2> /dev/null; do usleep 20000; done
}

# Sends requests to it, and prints its answers.
ask() {
    { cat; printf 'quit\r\n'; } | timeout 30 nc 127.0.0.1 11711 | tr -d '\r'
}

# One of its statistics.
statistic() {
    printf 'stats\r\n' | ask | awk -v name="$1" '$2 == name { print $3 }'
}

# Stores items of 4000 bytes with numbers from FIRST to before END in their ROUNDth version.
store_at_once() {
    awk -v first="$1" -v end="$2" -v round="$3" 'BEGIN {
        filler = sprintf("%3990s", "")
        for (n = first; n < end; n++) printf "set key%d %d 0 4000 noreply\r\n%06d %02d %s\r\n", n, round, n, round, filler
        printf "mn\r\n"
    }' | ask
}

# The same, no faster than the disk takes them: otherwise items that memory has no room for would be dropped.
store() {
    next=$1
    while [ "$next" -lt "$2" ]; do
        [ "$(store_at_once "$next" $((next + 250)) "$3")" = MN ] || { echo "no answer at $next"; return 1; }
        next=$((next + 250))
        while [ "$(statistic extstore_io_queue)" -gt 2 ]; do :; done
    done
}

# Reads items with numbers from FIRST to before END: how many are there, and of these, how many are not what was stored in the
# ROUNDth version.
look() {
    next=$1
    while [ "$next" -lt "$2" ]; do
        awk -v first="$next" -v end="$2" 'BEGIN { for (n = first; n < end && n < first + 500; n++) printf "get key%d\r\n", n }' | ask
        next=$((next + 500))
    done | awk -v round="$3" '
        BEGIN { filler = sprintf("%3990s", "") }
        $1 == "END" { answers++; next }
        $1 == "VALUE" {
            n = substr($2, 4); is_right = $3 == round && $4 == 4000; getline
            found++
            if (is_right && $0 == sprintf("%06d %02d %s", n, round, filler)) next
        }
        { wrong++ }
        END { print found + 0, "of", answers + 0, "found,", wrong + 0, "wrong" }'
}

# The same, again and again until all are found: on a busy host reads may take so long that they are misses, and then the
# server leaves the disk alone for ten seconds.
found_at_last() {
    while look "$@" > /tmp/found; ! grep -q "^$(($2 - $1)) of" /tmp/found && grep -q ', 0 wrong' /tmp/found; do
        sleep 0.5
    done
    cat /tmp/found
}

# A disk that behaves as a target of the device mapper does. Who has opened it does not notice the change.
disk_becomes() {
    echo "0 $(blockdev --getsz /dev/nvme0n1) $*" | dmsetup load flash
    dmsetup resume flash
}

# Tells whether a command ends in time, and prints its answer: a limit that a machine in software emulation keeps.
in_time() {
    begun=$(cut -d' ' -f1 /proc/uptime)
    "$@"
    awk -v begun="$begun" '{ print ($1 - begun < 10 ? "in time" : "after " $1 - begun " s") }' /proc/uptime
}
