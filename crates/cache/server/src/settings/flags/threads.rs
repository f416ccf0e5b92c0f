//! Flags for threads, and for the scheduling of connections.

use ::flags::{Effect, Kind};

use super::low::Flag;
use crate::settings::options::Driver;

/// The maximum number of threads, more than the cores of present machines.
const THREADS_MAX: i64 = 1024;

pub(super) const FLAGS: &[Flag] = &[
    Flag {
        short: Some('t'),
        name: "threads",
        value: "num",
        kind: Kind::Number { min: 1, max: THREADS_MAX },
        default: Some("4"),
        doc: "Threads that serve connections",
        details: "No more than the machine has cores; the default is memcached's.",
        effect: Effect::Works,
        set: |low, given| low.options.threads = given.number(),
    },
    Flag {
        short: Some('R'),
        name: "max-reqs-per-event",
        value: "num",
        kind: Kind::Number { min: 1, max: i32::MAX as i64 },
        // memcached's default of 20 costs a pipeline a third of its throughput: 50 requests in one packet
        // need three rounds of waiting, sending and rearming. 256 requests of 400 ns delay the other
        // connections by 100 µs at most.
        default: Some("256"),
        doc: "Requests of one connection before others get their turn",
        details: "A small number is fair to connections that share a thread with one that sends many requests at \
            a time; a large one serves those in fewer system calls. memcached's default of 20 costs deep \
            pipelines a third of their throughput; 256 small requests take about 100 µs.",
        effect: Effect::Works,
        set: |low, given| low.options.requests_per_turn = given.number(),
    },
    Flag {
        short: None,
        name: "driver",
        value: "name",
        kind: Kind::OneOf(&["auto", "epoll", "uring"]),
        default: Some("auto"),
        doc: "How sockets are driven: auto, epoll or uring",
        details: "auto takes the one that serves better on this kernel; uring (io_uring) fails where the kernel or a \
            container forbids it. The start-up line names the choice. memcached has no such flag.",
        effect: Effect::Works,
        set: |low, given| {
            low.options.driver = match given.text() {
                "epoll" => Driver::Epoll,
                "uring" => Driver::Uring,
                _ => Driver::Auto,
            }
        },
    },
    Flag {
        short: None,
        name: "pin",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Bind each thread to a CPU of its own",
        details: "Of the CPUs that the process may use (taskset, cpusets), one hardware thread of each core first, node by \
            node. Connections go to the thread on the CPU that handles their packets, unless it got 64 more than another \
            (-N: by receive queue). More threads than CPUs are refused. memcached has no such flag.",
        effect: Effect::Works,
        set: |low, _| low.options.pin = true,
    },
    Flag {
        short: None,
        name: "busy-poll",
        value: "usec",
        kind: Kind::Number { min: 0, max: 1_000_000 },
        default: Some("0"),
        doc: "Time to poll for packets before sleeping; 0 for none",
        details: "Needs Linux 6.9 and a network interface with NAPI; where the kernel refuses it, a line says so and the \
            server serves without. A thread that polls takes its CPU's time. memcached has no such flag.",
        effect: Effect::Works,
        set: |low, given| low.options.busy_poll_us = given.number(),
    },
    Flag {
        short: Some('N'),
        name: "napi-ids",
        value: "num",
        kind: Kind::Number { min: 1, max: THREADS_MAX },
        default: None,
        doc: "Receive queues by which threads are chosen",
        details: "All connections whose packets arrive at one receive queue of the network interface (NAPI id) are served \
            by one thread, which --busy-poll needs. At most as many as threads. Connections without a queue (loopback) \
            are dealt out in turn and counted in round_robin_fallback; more queues than threads in unexpected_napi_ids.",
        effect: Effect::Works,
        set: |low, given| low.options.echo.napi_ids = given.number(),
    },
];
