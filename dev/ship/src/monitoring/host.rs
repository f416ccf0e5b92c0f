//! The dashboard of hosts: what limits a server from outside, as `evenkeel tune check` judges it.

use super::table::PanelKind::{Lines, Stack, Table};
use super::table::{ALERTS, Bad, Dashboard, Panel, Query, Row};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    name: "host",
    title: "Evenkeel / Host",
    families: &["evenkeel_host_sampled"],
    has_pools: false,
    rows: &[
        Row { title: "Now", panels: &NOW },
        Row { title: "Packets", panels: &PACKETS },
        Row { title: "CPUs", panels: &CPUS },
        Row { title: "Disks", panels: &DISKS },
        Row { title: "Settings", panels: &SETTINGS },
    ],
};

const NOW: [Panel; 5] = [
    ALERTS,
    Panel::new(
        "Findings of the last check",
        Table,
        "none",
        "What limits a host; `evenkeel tune explain RULE` says why, and how it is changed and undone.",
        &[Query::new("evenkeel_tune_finding", "{{instance}} {{rule}} {{subject}}").empty("the check finds nothing")],
    ),
    Panel::new(
        "Packets held back by the cloud",
        Lines,
        "pps",
        "An allowance of the instance is used up: bandwidth, packets, connections. No setting helps, only another size or less traffic.",
        &[Query::new(
            "sum by (instance, allowance) (rate(evenkeel_host_allowance_exceeded_total{SCOPE}[RATE]))",
            "{{instance}} {{allowance}}",
        )],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Busiest CPU in soft interrupts",
        Lines,
        "percentunit",
        "Share of the time that the busiest CPU of a host spends on packets. Near 1 while others idle: packets arrive on one CPU.",
        &[Query::new(
            "max by (instance) (rate(evenkeel_host_softirq_seconds_total{SCOPE}[RATE]))",
            "{{instance}}",
        )],
    )
    .bad(Bad::From(0.8)),
    Panel::new(
        "Packets dropped",
        Lines,
        "pps",
        "By an interface, or because a CPU's backlog was full (net.core.netdev_max_backlog).",
        &[
            Query::new(
                "sum by (instance, nic, direction) (rate(evenkeel_host_nic_dropped_total{SCOPE}[RATE]))",
                "{{instance}} {{nic}} {{direction}}",
            ),
            Query::new("sum by (instance) (rate(evenkeel_host_backlog_dropped_total{SCOPE}[RATE]))", "{{instance}} backlog"),
        ],
    ),
];

const PACKETS: [Panel; 3] = [
    Panel::new(
        "By interface",
        Lines,
        "pps",
        "Packets of each interface.",
        &[Query::new(
            "sum by (instance, nic, direction) (rate(evenkeel_host_nic_packets_total{SCOPE}[RATE]))",
            "{{instance}} {{nic}} {{direction}}",
        )],
    ),
    Panel::new(
        "By queue",
        Lines,
        "pps",
        "The busiest receive queues, where the driver counts them. One alone: few flows, or steering that is not set.",
        &[Query::new(
            "topk(10, rate(evenkeel_host_nic_queue_packets_total{SCOPE, direction=\"receive\"}[RATE]))",
            "{{instance}} {{nic}} {{queue}}",
        )
        .empty("no driver counts its queues")],
    ),
    Panel::new(
        "Budget exhausted",
        Lines,
        "ops",
        "Times that packets were left for later (net.core.netdev_budget).",
        &[Query::new(
            "sum by (instance) (rate(evenkeel_host_budget_exhausted_total{SCOPE}[RATE]))",
            "{{instance}}",
        )],
    ),
];

const CPUS: [Panel; 3] = [
    Panel::new(
        "Soft interrupts by CPU",
        Lines,
        "percentunit",
        "The ten busiest CPUs.",
        &[Query::new(
            "topk(10, rate(evenkeel_host_softirq_seconds_total{SCOPE}[RATE]))",
            "{{instance}} CPU {{cpu}}",
        )],
    ),
    Panel::new(
        "Soft interrupts by kind",
        Stack,
        "ops",
        "Runs for packets and disks.",
        &[Query::new("sum by (kind) (rate(evenkeel_host_softirqs_total{SCOPE}[RATE]))", "{{kind}}")],
    ),
    Panel::new(
        "Threads that wait for a CPU",
        Lines,
        "percentunit",
        "The ten threads of servers that were ready to run longest without a CPU.",
        &[Query::new(
            "topk(10, rate(evenkeel_thread_wait_seconds_total{SCOPE}[RATE]))",
            "{{instance}} {{thread}}",
        )],
    ),
];

const DISKS: [Panel; 3] = [
    Panel::new(
        "Requests",
        Lines,
        "iops",
        "Reads and writes done.",
        &[Query::new(
            "sum by (instance, disk) (rate(evenkeel_host_disk_requests_total{SCOPE}[RATE]))",
            "{{instance}} {{disk}}",
        )],
    ),
    Panel::new(
        "Mean response time",
        Lines,
        "s",
        "Queueing included. A read of the flash tier that takes more than 0.1 s is a miss.",
        &[Query::new(
            "rate(evenkeel_host_disk_response_seconds_total{SCOPE}[RATE]) / (rate(evenkeel_host_disk_requests_total{SCOPE}[RATE]) > 0)",
            "{{instance}} {{disk}}",
        )
        .empty("no disk has a request")],
    )
    .bad(Bad::From(0.1)),
    Panel::new(
        "Busy, and in flight",
        Lines,
        "none",
        "Share of the time with requests, and requests that are being served now.",
        &[
            Query::new("rate(evenkeel_host_disk_busy_seconds_total{SCOPE}[RATE])", "{{instance}} {{disk}} busy"),
            Query::new("evenkeel_host_disk_in_flight{SCOPE}", "{{instance}} {{disk}} in flight"),
        ],
    ),
];

const SETTINGS: [Panel; 3] = [
    Panel::new(
        "Findings by severity",
        Stack,
        "none",
        "Of the last check of each host.",
        &[Query::new("sum by (severity) (evenkeel_tune_findings)", "{{severity}}")],
    ),
    Panel::new(
        "Settings that do not hold",
        Lines,
        "none",
        "Of those that `evenkeel tune watch` looks after. What is left to another program stays here.",
        &[Query::new("evenkeel_tune_watch_drifted", "{{instance}}")],
    ),
    Panel::new(
        "Age of checks and looks",
        Lines,
        "s",
        "A line that climbs is a timer or a watch that has ended.",
        &[
            Query::new("time() - evenkeel_tune_checked_timestamp_seconds", "{{instance}} check"),
            Query::new("time() - evenkeel_tune_watch_looked_timestamp_seconds", "{{instance}} watch"),
        ],
    ),
];
