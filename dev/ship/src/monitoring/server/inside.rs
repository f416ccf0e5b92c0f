//! Panels about the inside of a server: memory, connections, threads, flash.

use crate::monitoring::table::PanelKind::{Heat, Lines, Stack, Table};
use crate::monitoring::table::{Bad, Panel, Query};

pub(super) const MEMORY: [Panel; 7] = [
    Panel::new(
        "Memory by use",
        Stack,
        "bytes",
        "What counts against the limit (-m): segments with items, the index, large values, and keys of evicted items.",
        &[Query::new("sum by (use) (evenkeel_memory_bytes{SCOPE})", "{{use}}")],
    ),
    Panel::new(
        "Evicted and reclaimed",
        Lines,
        "ops",
        "Evicted items were alive. Those that had been read lately are hits that are lost: memory is short.",
        &[
            Query::new("sum(rate(memcached_items_evicted_total{SCOPE}[RATE]))", "evicted"),
            Query::new("sum(rate(evenkeel_evicted_active_total{SCOPE}[RATE]))", "evicted, read lately"),
            Query::new("sum(rate(memcached_items_reclaimed_total{SCOPE}[RATE]))", "expired"),
        ],
    ),
    Panel::new(
        "Sets that more memory would have saved",
        Lines,
        "percentunit",
        "Share of the sets whose key had been evicted shortly before: more memory would have kept some of these items.",
        &[Query::new(
            "sum by (instance) (rate(evenkeel_ghost_hits_total{SCOPE}[RATE])) / sum by (instance) (rate(memcached_commands_total{SCOPE, command=\"set\", status=\"hit\"}[RATE]))",
            "{{instance}}",
        )],
    )
    .bad(Bad::From(0.05)),
    Panel::new(
        "Time since the last use of evicted items",
        Heat,
        "s",
        "How long what is not used stays in the memory. Minutes: memory is short. Days: there is enough.",
        &[Query::new("sum by (le) (increase(evenkeel_evicted_idle_seconds_bucket{SCOPE}[RATE]))", "{{le}}")],
    ),
    Panel::new(
        "Items",
        Lines,
        "short",
        "Items of each server. A fall to nothing is a restart or a flush.",
        &[Query::new("sum by (instance) (memcached_current_items{SCOPE})", "{{instance}}")],
    ),
    Panel::new(
        "Items refused",
        Lines,
        "ops",
        "Larger than -I, or no memory: with -M, or because slow readers hold large values.",
        &[
            Query::new("sum(rate(memcached_item_too_large_total{SCOPE}[RATE]))", "too large"),
            Query::new("sum(rate(memcached_item_no_memory_total{SCOPE}[RATE]))", "no memory"),
        ],
    ),
    Panel::new(
        "Garbage",
        Lines,
        "bytes",
        "Bytes of items that were deleted or replaced, before they are collected.",
        &[Query::new("sum by (instance) (evenkeel_dead_bytes{SCOPE})", "{{instance}}")],
    ),
];

pub(super) const CONNECTIONS: [Panel; 8] = [
    Panel::new(
        "Connections",
        Lines,
        "short",
        "Open connections of each server.",
        &[Query::new("sum by (instance) (memcached_current_connections{SCOPE})", "{{instance}}")],
    ),
    Panel::new(
        "New connections",
        Lines,
        "ops",
        "A high rate costs CPU time: clients should keep their connections.",
        &[Query::new("sum by (instance) (rate(memcached_connections_total{SCOPE}[RATE]))", "{{instance}}")],
    ),
    Panel::new(
        "Connections turned away",
        Lines,
        "ops",
        "Refused at the limit (-c), times that accepting paused, and connections closed because they were idle.",
        &[
            Query::new("sum(rate(memcached_connections_rejected_total{SCOPE}[RATE]))", "refused"),
            Query::new(
                "sum(rate(memcached_connections_listener_disabled_total{SCOPE}[RATE]))",
                "accepting paused",
            ),
            Query::new("sum(rate(evenkeel_idle_closed_total{SCOPE}[RATE]))", "idle"),
        ],
    ),
    Panel::new(
        "Connections by listener",
        Lines,
        "short",
        "By the address at which they were accepted: it shows who still uses an old port.",
        &[Query::new("sum by (address) (evenkeel_listener_connections{SCOPE})", "{{address}}")],
    ),
    Panel::new(
        "Logins that failed",
        Lines,
        "ops",
        "Wrong users or passwords (-Y).",
        &[Query::new("sum by (instance) (rate(evenkeel_auth_errors_total{SCOPE}[RATE]))", "{{instance}}")],
    ),
    Panel::new(
        "TLS handshakes",
        Lines,
        "ops",
        "Full ones cost a signature. Failed ones: a certificate that the other side does not accept.",
        &[
            Query::new("sum by (outcome) (rate(evenkeel_tls_handshakes_total{SCOPE}[RATE]))", "{{outcome}}"),
            Query::new(
                "sum by (identity) (rate(evenkeel_tls_refused_requests_total{SCOPE}[RATE]))",
                "refused to {{identity}}",
            )
            .empty("each client makes only what its role allows"),
        ],
    ),
    Panel::new(
        "Certificates",
        Lines,
        "s",
        "Time until each ends. Replace the files before; the server reads them by itself.",
        &[Query::new("evenkeel_certificate_end_seconds{SCOPE} - time()", "{{instance}} {{file}}")],
    )
    .bad(Bad::Below(604_800.0)),
    Panel::new(
        "Datagrams",
        Lines,
        "pps",
        "Requests over UDP (-U). Lost ones came faster than they were read.",
        &[Query::new("sum by (outcome) (rate(evenkeel_datagrams_total{SCOPE}[RATE]))", "{{outcome}}")],
    ),
];

pub(super) const THREADS: [Panel; 3] = [
    Panel::new(
        "Busiest workers",
        Lines,
        "percentunit",
        "CPU time of a worker. One at 100 % while others idle: few connections, or a hot key.",
        &[Query::new(
            "topk(10, rate(evenkeel_thread_cpu_seconds_total{SCOPE, thread=~\"worker-.+\"}[RATE]))",
            "{{instance}} {{thread}}",
        )],
    )
    .bad(Bad::From(0.9)),
    Panel::new(
        "Keys by worker",
        Lines,
        "reqps",
        "Keys of gets, and stores, of each worker.",
        &[Query::new(
            "topk(10, sum by (instance, worker) (rate(evenkeel_worker_commands_total{SCOPE}[RATE])))",
            "{{instance}} {{worker}}",
        )],
    ),
    Panel::new(
        "CPU time of the process",
        Lines,
        "percentunit",
        "Of one CPU. Most of it is the kernel's.",
        &[
            Query::new(
                "sum by (instance) (rate(memcached_process_user_cpu_seconds_total{SCOPE}[RATE]))",
                "{{instance}} user",
            ),
            Query::new(
                "sum by (instance) (rate(memcached_process_system_cpu_seconds_total{SCOPE}[RATE]))",
                "{{instance}} kernel",
            ),
        ],
    ),
];

pub(super) const FLASH: [Panel; 6] = [
    Panel::new(
        "Items lost on flash",
        Lines,
        "ops",
        "Items that became misses: damaged, not readable, or a read that took more than 0.1 s. Then errors of the disk, and times that it was left alone.",
        &[
            Query::new("sum by (reason) (rate(evenkeel_flash_lost_total{SCOPE}[RATE]))", "{{reason}}"),
            Query::new(
                "sum by (direction) (rate(evenkeel_flash_errors_total{SCOPE}[RATE]))",
                "{{direction}} errors",
            ),
            Query::new("sum(rate(evenkeel_flash_turned_off_total{SCOPE}[RATE]))", "left alone"),
        ],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Items read and written",
        Lines,
        "ops",
        "Reads are for clients. Writes include items that were written again when their page was emptied.",
        &[
            Query::new("sum(rate(memcached_extstore_objects_read_total{SCOPE}[RATE]))", "read"),
            Query::new("sum(rate(memcached_extstore_objects_written_total{SCOPE}[RATE]))", "written"),
            Query::new("sum(rate(evenkeel_flash_recached_total{SCOPE}[RATE]))", "back to memory"),
        ],
    ),
    Panel::new(
        "Not written",
        Lines,
        "ops",
        "Items that left memory for good: not admitted by the settings, no room because the disk is too slow, or the budget was spent.",
        &[Query::new("sum by (reason) (rate(evenkeel_flash_not_written_total{SCOPE}[RATE]))", "{{reason}}")],
    ),
    Panel::new(
        "Written to disks",
        Lines,
        "Bps",
        "Compare its average over a day with the endurance of the disk (docs/serve/flash.md).",
        &[Query::new(
            "sum by (instance) (rate(evenkeel_flash_device_written_bytes_total{SCOPE}[RATE]))",
            "{{instance}}",
        )],
    ),
    Panel::new(
        "Waiting for disks",
        Lines,
        "short",
        "Reads under way, and write buffers that wait, of eight. Buffers that stay there: the disk cannot keep up.",
        &[
            Query::new("max by (instance) (evenkeel_flash_reads{SCOPE})", "{{instance}} reads"),
            Query::new("max by (instance) (evenkeel_flash_buffers_waiting{SCOPE})", "{{instance}} buffers"),
        ],
    ),
    Panel::new(
        "Flash in use, and memory for its index",
        Lines,
        "percentunit",
        "Bytes of items of all pages; and the share of the memory limit that the index and the write buffers have. From 0.9 on, pages are emptied for the index.",
        &[
            Query::new(
                "sum by (instance) (memcached_extstore_bytes_used{SCOPE}) / sum by (instance) (memcached_extstore_bytes_limit{SCOPE})",
                "{{instance}} flash",
            ),
            Query::new("max by (instance) (evenkeel_flash_index_share{SCOPE})", "{{instance}} index"),
        ],
    )
    .bad(Bad::From(0.9)),
];

pub(super) const PROCESSES: [Panel; 3] = [
    Panel::new(
        "Time since the start",
        Lines,
        "s",
        "A server that falls to 0 was restarted, without its items unless it has a memory file (-e) or was taken over.",
        &[Query::new("memcached_uptime_seconds{SCOPE}", "{{instance}}")],
    ),
    Panel::new(
        "Members that clients are told",
        Lines,
        "none",
        "Revisions of the list for clients with auto-discovery. All members should show the same.",
        &[
            Query::new("evenkeel_cluster_revision{SCOPE}", "{{instance}} revision"),
            Query::new("evenkeel_cluster_members{SCOPE}", "{{instance}} members"),
        ],
    ),
    Panel::new(
        "Versions",
        Table,
        "none",
        "Servers of each version.",
        &[Query::new("count by (version) (evenkeel_build_info{SCOPE})", "{{version}}")],
    ),
];
