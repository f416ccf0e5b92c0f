//! Texts of the tuner for each shape of host: findings, plan, and the CPUs that each strategy chooses.

use crate::hosts::shapes;
use crate::hosts::talk::check;

#[test]
fn c3_4xlarge_one_queue_fills_one_cpu() {
    check(
        &shapes::c3_4xlarge(),
        "cpu 0 system=9 softirq=90
         cpu 1-15 user=15
         NET_RX 0=1200000 1-15=200
         arrivals 84 0=900000
         count eth0 rx_packets=1500000",
        "host     HVM domU, Linux 3.13.0-44-generic, CPUs 0-15 on 1 nodes, eth0 (vif, 1 queues)
         critical rps-missing: eth0 has one receive queue for 16 CPUs, and packets stay on CPU 0
           causes softirq-one-core: CPU 0 has no time left, handles 100 % of all received packets and spends
                  90 % of its time on interrupts, while the other CPUs are 85 % idle
         warning  interrupt-per-packet: eth0 interrupts for nearly every packet: no moderation is in effect
                  [cannot be fixed here]
         warning  clock-slow: the clock source xen cannot be read without a system call
         warning  kernel-old: Linux 3.13.0-44-generic is older than some of what helps servers [cannot be
                  fixed here]
         notes    packets-per-core, somaxconn-low
         plan     net.core.rps_sock_flow_entries 32768
         plan     eth0 rps_cpus 1-7,9-15
         plan     eth0 rps_flow_cnt 32768
         plan     clocksource0/current_clocksource tsc
         plan     net.core.somaxconn 4096
         plan     net.ipv4.tcp_max_syn_backlog 4096
         spread   interrupts 0
         irq0-rps interrupts 0; net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 1-7,9-15; eth0
                  rps_flow_cnt 32768
         rps-rfs  net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 1-7,9-15; eth0 rps_flow_cnt 32768
         xps      eth0: no, it has one transmit queue, or the driver chooses among them",
    );
}

#[test]
fn c5_4xlarge_the_instances_packets_are_used_up() {
    check(
        &shapes::c5_4xlarge(),
        "cpu 0-15 user=20 softirq=12
         count eth0 rx_packets=30000000 pps_allowance_exceeded=40000
         count TcpExt.ListenOverflows=60 TcpExt.ListenDrops=60 Tcp.PassiveOpens=900",
        "host     c5.4xlarge, Linux 5.10.205-195.804.amzn2.x86_64, CPUs 0-15 on 1 nodes, eth0 (ena, 8 queues)
         critical allowance-exceeded: the instance's allowance for packets per second is used up, so packets
                  are queued or dropped [cannot be fixed here]
         critical backlog-small: memcached (PID 700) asked for a short queue, or started when somaxconn was
                  lower
           causes accept-overflow: an accept queue was full when handshakes ended, most likely that of
                  memcached (PID 700)
         notes    packets-per-core
         by hand  memcached (PID 700) at 0.0.0.0:11211 listens with a backlog of 128: start it again with -b
                  4096, after net.core.somaxconn is raised; --live changes it as it runs
         spread   interrupts 0 1 2 3 4 5 6 7
         irq0-rps interrupts 8×0; net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 8×1-7,9-15; eth0
                  rps_flow_cnt 8×4096
         rps-rfs  net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 8×1,3,5,7,9,11,13,15; eth0
                  rps_flow_cnt 8×4096
         xps      eth0 xps_cpus 0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15",
    );
}

#[test]
fn r5_8xlarge_after_a_reset_all_interrupts_are_on_cpu_0() {
    check(
        &shapes::r5_8xlarge_after_a_reset(),
        "cpu 0 softirq=85
         cpu 1-31 user=15
         NET_RX 0=3000000 1-31=300
         arrivals 28-35 0=200000
         count eth0 rx_packets=9000000 rx_missed_errors=0 rx_overruns=1200",
        "host     r5.8xlarge, Linux 5.10.205-195.804.amzn2.x86_64, CPUs 0-31 on 1 nodes, eth0 (ena, 8 queues)
         critical irqs-piled-up: 8 receive interrupts of eth0 arrive on CPU 0, where 8 CPUs could take them
           causes softirq-one-core: CPU 0 handles 100 % of all received packets and spends 85 % of its time
                  on interrupts, while the other CPUs are 85 % idle
           causes rps-missing: eth0 has 8 receive queues for 32 CPUs, and packets stay on CPU 0
           causes ring-overrun: eth0 drops packets because the CPU that empties the ring is busy with
                  interrupts
         notes    packets-per-core
         plan     interrupts 1 2 3 4 5 6 7
         refused  eth0: its interrupts are spread first: look again under load, for steering may not be
                  needed then
         refused  eth0: the CPU that empties its ring is busy with interrupts (85 %): a longer ring would
                  only delay the drops, so spread its packets first
         spread   interrupts 0 1 2 3 4 5 6 7
         irq0-rps interrupts 8×0; net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 8×1-15,17-31; eth0
                  rps_flow_cnt 8×4096
         rps-rfs  net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 8×1-15,17-31; eth0 rps_flow_cnt
                  8×4096
         xps      eth0 xps_cpus 0-1,9,17,25 0,2,10,18,26 0,3,11,19,27 0,4,12,20,28 0,5,13,21,29 0,6,14,22,30
                  0,7,15,23,31 0,8,16,24",
    );
}

#[test]
fn i3en_24xlarge_a_slice_above_the_service_has_the_quota() {
    check(
        &shapes::i3en_24xlarge(),
        "cpu 24-39 user=30 softirq=35
         cpu 0-23 user=20
         cgroup /system.slice throttled=60
         count ens6 rx_packets=30000000",
        "host     i3en.24xlarge, Linux 6.1.79-99.164.amzn2023.x86_64, CPUs 0-95 on 2 nodes, ens6 (ena, 32
                  queues)
         critical cpu-throttled: the CPU quota of /system.slice was used up in 20 % of its periods [cannot be
                  fixed here]
         warning  realtime-everywhere: 1 real-time threads of memcached leave no CPU to the kernel's own work
         warning  swapping: a part of memcached is in swap
         notes    packets-per-core, xps-crossed, packet-taxes, agents
         plan     ens6 xps_cpus 0,24,56 … 55,79
         by hand  realtime-everywhere (memcached (PID 700)): Leave the CPUs that take the interrupts, or at
                  least one CPU, out of the set of its unit (AllowedCPUs=); no plan does that
         by hand  swapping (memcached (PID 700)): Give services less memory than there is; vm.swappiness = 1
                  on hosts that hold data in memory
         spread   ens6: no, irqbalance (PID 800) would move its interrupts back, and does not answer on its
                  socket: ban them there first
         irq0-rps ens6: no, irqbalance (PID 800) would move its interrupts back, and does not answer on its
                  socket: ban them there first
         rps-rfs  ens6: no, CPUs 24-47,72-79 take its interrupts, and with their siblings they are all there
                  are of 24-47,72-95
         xps      ens6 xps_cpus 0,24,56 … 55,79",
    );
}

#[test]
fn c6gn_16xlarge_has_a_queue_for_every_other_cpu() {
    check(
        &shapes::c6gn_16xlarge(),
        "cpu 0-31 user=20 softirq=45
         cpu 32-63 user=20
         NET_RX 0-31=500000 32-63=100
         count ens5 rx_packets=90000000",
        "host     c6gn.16xlarge, Linux 6.1.79-99.164.amzn2023.aarch64, CPUs 0-63 on 1 nodes, ens5 (ena, 32
                  queues)
         warning  rps-missing: ens5 has 32 receive queues for 64 CPUs, and packets stay on CPUs 0-31
         notes    packets-per-core
         plan     net.core.rps_sock_flow_entries 32768
         plan     ens5 rps_cpus 32×32-63
         plan     ens5 rps_flow_cnt 32×1024
         spread   interrupts 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29
                  30 31
         irq0-rps interrupts 32×0; net.core.rps_sock_flow_entries 32768; ens5 rps_cpus 32×1-63; ens5
                  rps_flow_cnt 32×1024
         rps-rfs  net.core.rps_sock_flow_entries 32768; ens5 rps_cpus 32×32-63; ens5 rps_flow_cnt 32×1024
         xps      ens5 xps_cpus 0,32 … 31,63",
    );
}

#[test]
fn metal_256_has_masks_of_eight_words() {
    check(
        &shapes::metal_256(),
        "cpu 64-75 user=10 softirq=40
         NET_RX 64-75=500000
         count ens1f0np0 rx_packets=60000000 rx_out_of_buffer=900",
        "host     PowerEdge R7625, Linux 6.8.0-45-generic, CPUs 0-255 on 2 nodes, ens1f0np0 (mlx5_core, 12
                  queues)
         warning  rps-harmful: packets of ens1f0np0 are steered away from NUMA node 1 to CPU 0
         warning  ring-overrun: ens1f0np0 drops packets because the CPU that empties the ring is busy with
                  interrupts
         notes    packets-per-core, xps-crossed
         plan     net.core.rps_sock_flow_entries 32768
         plan     ens1f0np0 rps_cpus 12×76-127,204-255
         plan     ens1f0np0 rps_flow_cnt 12×4096
         plan     ens1f0np0 xps_cpus
                  0,12,24,36,48,60,64,84,96,108,120,132,144,156,168,180,192,216,228,240,252 …
                  11,23,35,47,59,75,79,83,95,107,119,131,143,155,167,179,191,203,207,215,227,239,251
         refused  ens1f0np0: the CPU that empties its ring is busy with interrupts (40 %): a longer ring
                  would only delay the drops, so spread its packets first
         spread   interrupts 64 65 66 67 68 69 70 71 72 73 74 75
         irq0-rps interrupts 12×64; net.core.rps_sock_flow_entries 32768; ens1f0np0 rps_cpus
                  12×65-127,193-255; ens1f0np0 rps_flow_cnt 12×4096
         rps-rfs  net.core.rps_sock_flow_entries 32768; ens1f0np0 rps_cpus 12×76-127,204-255; ens1f0np0
                  rps_flow_cnt 12×4096
         xps      ens1f0np0 xps_cpus
                  0,12,24,36,48,60,64,84,96,108,120,132,144,156,168,180,192,216,228,240,252 …
                  11,23,35,47,59,75,79,83,95,107,119,131,143,155,167,179,191,203,207,215,227,239,251",
    );
}

#[test]
fn gcp_gve_receives_with_the_second_half_of_its_interrupts() {
    check(
        &shapes::n2_standard_16(),
        "cpu 0-15 user=30 softirq=10
         count ens4 rx_packets=20000000 rx_queue_drop_cnt[3]=500 rx_dropped_pkt[3]=7",
        "host     Google Compute Engine, Linux 6.1.0-18-cloud-amd64, CPUs 0-15 on 1 nodes, ens4 (gve, 16
                  queues)
         warning  device-dropped: ens4 loses packets although the CPU that takes them has time [cannot be
                  fixed here]
         notes    packets-per-core, agents
         spread   interrupts 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
         irq0-rps ens4: no, 16 receive queues for 16 CPUs: steering would only add a hop
         rps-rfs  ens4: no, 16 receive queues for 16 CPUs: steering would only add a hop
         xps      ens4 xps_cpus 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15",
    );
}

#[test]
fn azure_mana_works_below_a_synthetic_interface() {
    check(
        &shapes::d16s_v6(),
        "cpu 0-15 user=30 softirq=40
         count eth0 rx_packets=20000000
         count enP30832s1 rx_packets=20000000 hc_rx_discards_no_wqe=6000",
        "host     Virtual Machine, Linux 6.8.0-1018-azure, CPUs 0-15 on 1 nodes, enP30832s1 (mana, 16 queues)
         critical ring-overrun: enP30832s1 drops packets because the CPU that empties the ring is busy with
                  interrupts
         notes    packets-per-core
         refused  enP30832s1: the CPU that empties its ring is busy with interrupts (40 %): a longer ring
                  would only delay the drops, so spread its packets first
         spread   interrupts 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
         irq0-rps enP30832s1: no, 16 receive queues for 16 CPUs: steering would only add a hop
         rps-rfs  enP30832s1: no, 16 receive queues for 16 CPUs: steering would only add a hop
         xps      enP30832s1 xps_cpus 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15",
    );
}

#[test]
fn a_vlan_on_a_bond_is_tuned_at_its_members() {
    check(
        &shapes::bond_with_vlan(),
        "cpu 0 softirq=70
         cpu 1-3 user=10
         NET_RX 0=900000 1-3=10
         count eth0 rx_packets=3000000
         count eth1 rx_packets=2000000
         count bond0 rx_packets=5000000",
        "host     a host without firmware, Linux 6.1.0-18-amd64, CPUs 0-3 on 1 nodes, eth0 (ixgbe, 4 queues),
                  eth1 (ixgbe, 4 queues)
         critical irqs-piled-up: 4 receive interrupts of eth0 arrive on CPU 0, where 4 CPUs could take
                  them [also eth1]
           causes softirq-one-core: CPU 0 handles 100 % of all received packets and spends 70 % of its time
                  on interrupts, while the other CPUs are 90 % idle
         notes    packets-per-core
         plan     interrupts 1 2 3 1 2 3
         refused  eth0: its interrupts are spread first: look again under load, for steering may not be
                  needed then
         refused  eth1: its interrupts are spread first: look again under load, for steering may not be
                  needed then
         spread   interrupts 0 1 2 3 0 1 2 3
         irq0-rps eth0: no, 4 receive queues for 4 CPUs: steering would only add a hop; eth1: no, 4 receive
                  queues for 4 CPUs: steering would only add a hop
         rps-rfs  eth0: no, 4 receive queues for 4 CPUs: steering would only add a hop; eth1: no, 4 receive
                  queues for 4 CPUs: steering would only add a hop
         xps      eth0 xps_cpus 0-1 0,2 0,3 0; eth1 xps_cpus 0-1 0,2 0,3 0",
    );
}

#[test]
fn a_container_without_sys_is_told_what_it_can_do() {
    check(
        &shapes::container(),
        "cgroup / throttled=90
         count TcpExt.ListenOverflows=60",
        "host     a host without firmware, Linux 6.1.0-18-amd64, CPUs 0,2 on 1 nodes, no interface
         critical cpu-throttled: the CPU quota of / was used up in 30 % of its periods [cannot be fixed here]
         critical accept-overflow: an accept queue was full when handshakes ended
         notes    somaxconn-low
         refused  /proc/sys: it is mounted read-only, as in most containers: make the plan on the host itself
         spread   network: no, there is no interface that is up; name one with --nic
         irq0-rps network: no, there is no interface that is up; name one with --nic
         rps-rfs  network: no, there is no interface that is up; name one with --nic
         xps      network: no, there is no interface that is up; name one with --nic",
    );
}

#[test]
fn cpus_that_are_off_are_in_no_mask() {
    check(
        &shapes::offline_cpus(),
        "cpu 0 softirq=70
         NET_RX 0=900000
         count eth0 rx_packets=3000000",
        "host     a host without firmware, Linux 6.1.0-18-amd64, CPUs 0-3,6 on 2 nodes, eth0 (virtio_net, 2
                  queues)
         critical rps-missing: eth0 has 2 receive queues for 5 CPUs, and packets stay on CPUs 0,2
           causes softirq-one-core: CPU 0 handles 100 % of all received packets and spends 70 % of its time
                  on interrupts, while the other CPUs are 100 % idle
         notes    packets-per-core
         plan     net.core.rps_sock_flow_entries 32768
         plan     eth0 rps_cpus 2×1,3
         plan     eth0 rps_flow_cnt 2×16384
         spread   interrupts 0 1 0 1
         irq0-rps interrupts 4×0; net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 2×1-3; eth0
                  rps_flow_cnt 2×16384
         rps-rfs  net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 2×1,3; eth0 rps_flow_cnt 2×16384
         xps      eth0 xps_cpus 0-1,6 2-3",
    );
}

#[test]
fn nodes_that_make_no_sense_count_as_one() {
    check(
        &shapes::numa_broken(),
        "cpu 0 softirq=70
         NET_RX 0=900000
         count eth0 rx_packets=3000000",
        "host     SYS-1029, Linux 6.1.0-18-amd64, CPUs 0-7 on 1 nodes, eth0 (igb, 1 queues)
         critical rps-missing: eth0 has one receive queue for 8 CPUs, and packets stay on CPU 0
           causes softirq-one-core: CPU 0 handles 100 % of all received packets and spends 70 % of its time
                  on interrupts, while the other CPUs are 100 % idle
         notes    packets-per-core
         plan     net.core.rps_sock_flow_entries 32768
         plan     eth0 rps_cpus 1-7
         plan     eth0 rps_flow_cnt 32768
         spread   interrupts 0
         irq0-rps interrupts 0; net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 1-7; eth0 rps_flow_cnt
                  32768
         rps-rfs  net.core.rps_sock_flow_entries 32768; eth0 rps_cpus 1-7; eth0 rps_flow_cnt 32768
         xps      eth0: no, it has one transmit queue, or the driver chooses among them",
    );
}
