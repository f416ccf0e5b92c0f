//! Flags for threads, and for the scheduling of connections.

use ::flags::{Effect, Kind};

use super::low::Flag;
use crate::options::Driver;

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
        short: Some('N'),
        name: "napi-ids",
        value: "num",
        kind: Kind::Number { min: 1, max: THREADS_MAX },
        default: None,
        doc: "Receive queues by which threads are chosen",
        details: "",
        effect: Effect::Without("connections are dealt to the workers in turn"),
        set: |low, given| low.options.echo.napi_ids = given.number(),
    },
];
