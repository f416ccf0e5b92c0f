//! The handler for `net`, and the work between requests.

use std::fmt;

use net::{
    Activity, Address, Block, CloseReason, Datagram, Errno, Handler, Next, Opened, Origin, Progress, Turn,
};
use stdx::clock::Now;
use store::{Event, Evicted};

use crate::connection::Connection;
use crate::connection::output::{Held, Output};
use crate::figures::service_times::ClassCounts;
use crate::flash_tier::stage::FlashStage;
use crate::watch::{KeyName, Streams};
use crate::worker::Worker;
use ::hot_keys::{HotKeys, WINDOW_US};

/// Interval between turns of a worker that has only housekeeping to do: 20 µs of each 5 ms.
const TIDYING_US: u64 = 5_000;

/// Interval at which connections that wait for other uploads are woken.
const SLEEP_US: u64 = 50_000;

impl Handler for Worker {
    type Connection = Connection;
    type Held = Held;

    fn begin_turn(&mut self, now: Now) {
        self.now = now;
        self.second = now.second();
        self.watched = self.shared.log.wanted();
        self.detail = self.shared.prefixes.enabled();
        self.store.begin_turn(self.second);
        if let Some(stage) = &mut self.stage {
            stage.begin_turn(now);
        }
        self.log_store();
    }

    fn on_tick(&mut self, now: Now) {
        if self.logs_hot_keys && self.watched.intersects(Streams::HOT_KEYS) {
            self.log_hot_keys(now);
        }
    }

    fn deadline(&self) -> Option<Now> {
        let tidying = self.store.needs_turn().then(|| Now { us: self.now.us + TIDYING_US });
        let looking = (!self.sleepers.is_empty()).then_some(self.look_at);
        let reporting = self.steps.are_wanted().then_some(self.now);
        let reading = self.stage.as_deref().and_then(FlashStage::deadline);
        tidying.into_iter().chain(looking).chain(reporting).chain(reading).min()
    }

    fn end_turn(&mut self, turn: &mut Turn<Held>) {
        if !self.sleepers.is_empty() && self.look_at <= self.now {
            self.sleepers.drain(..).for_each(|link| turn.wake(link));
            self.look_at = Now { us: self.now.us + SLEEP_US };
        }
        self.steps.end_turn(turn);
        if let Some(stage) = &mut self.stage {
            stage.end_turn(&self.shared.store, turn);
        }
    }

    fn on_read(&mut self, tag: u64, result: Result<Block, Errno>, turn: &mut Turn<Held>) {
        if let Some(stage) = &mut self.stage {
            stage.on_read(tag as usize, result, turn);
        }
    }

    fn on_sent(&mut self, clock: impl FnOnce() -> Now) {
        let counted = ClassCounts::of(&self.counters);
        if counted != self.counted {
            let round_us = clock().us.saturating_sub(self.now.us);
            self.service_times.record(&self.counted, &counted, round_us);
            self.counted = counted;
        }
    }

    fn on_waited(&mut self, waited_us: u64) {
        self.wait_times.record(waited_us, 1);
    }

    fn on_open(&mut self, opened: &Opened, _turn: &mut Turn<Held>) -> Connection {
        let protocol = match opened.origin {
            Origin::Accepted { listener } => self.shared.protocol_at(listener),
            Origin::Dialled { .. } => self.shared.options.protocol,
        };
        let connection = Connection::new(opened, self.shared.options.auth.is_some(), protocol);
        self.log(
            Streams::CONNECTION_EVENTS,
            format_args!(
                "type=conn_new {} cfd={}{}",
                ClientEnd(&opened.peer),
                opened.fd,
                ClientName(connection.identity())
            ),
        );
        connection
    }

    fn pack(&self, connection: &Connection) -> Option<Vec<u8>> {
        connection.pack(self.shared.options.auth.is_some())
    }

    fn unpack(&mut self, connection: &mut Connection, state: &[u8]) -> bool {
        connection.unpack(state, self.shared.options.auth.is_some())
    }

    fn prefetch(&mut self, connection: &Connection, input: &[u8]) {
        connection.prefetch(self, input);
    }

    fn on_bytes(
        &mut self,
        connection: &mut Connection,
        input: &[u8],
        output: &mut Output,
        _turn: &mut Turn<Held>,
    ) -> Progress {
        // The first connection of a round prefetches the items for the keys of all connections.
        self.fetch_items();
        let progress = connection.serve(self, input, output);
        self.log_store();
        progress
    }

    fn body<'c>(&mut self, connection: &'c mut Connection) -> Option<&'c mut [u8]> {
        connection.body(self)
    }

    fn on_body(
        &mut self,
        connection: &mut Connection,
        received: usize,
        output: &mut Output,
        _turn: &mut Turn<Held>,
    ) -> Next {
        let next = connection.on_body(self, received, output);
        self.log_store();
        next
    }

    fn prefetch_datagram(&mut self, datagram: &Datagram<'_>) {
        self.prefetch_request(datagram);
    }

    fn on_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Held>) {
        self.serve_datagram(datagram, turn);
        self.log_store();
    }

    fn activity(&self, connection: &Connection) -> Activity {
        connection.activity()
    }

    fn on_close(&mut self, connection: Connection, reason: CloseReason, _turn: &mut Turn<Held>) {
        self.steps.closed(connection.link());
        self.forget_reads(connection.link());
        if connection.watches() {
            self.shared.unwatch(connection.id());
        }
        let reason = match reason {
            CloseReason::Normal => "normal",
            CloseReason::Error | CloseReason::InputTooLong => "error",
            CloseReason::IdleTimeout => "idle_timeout",
            CloseReason::Shutdown => "shutdown",
            CloseReason::HandedOver => "handed_over",
        };
        self.log(
            Streams::CONNECTION_EVENTS,
            format_args!(
                "type=conn_close {} reason={reason} cfd={}{}",
                ClientEnd(connection.client()),
                connection.fd(),
                ClientName(connection.identity())
            ),
        );
    }
}

impl Worker {
    /// Logs the hot keys, once in each of their windows: at most 60 lines.
    #[cold]
    fn log_hot_keys(&mut self, now: Now) {
        let window = now.us / WINDOW_US;
        if self.hot_keys_logged == window {
            return;
        }
        self.hot_keys_logged = window;
        for (by, keys) in HotKeys::read(&self.shared.hot_tables, now).rankings() {
            for (place, hot) in keys.iter().enumerate() {
                let [percent, min, max] =
                    [hot.share, hot.share_min, hot.share_max].map(|share| share * 100.0);
                self.log(
                    Streams::HOT_KEYS,
                    format_args!(
                        "type=hot_key by={by} place={} percent={percent:.2} percent_min={min:.2} percent_max={max:.2} key={}",
                        place + 1,
                        KeyName(&hot.key)
                    ),
                );
            }
        }
    }

    /// Logs evictions and emptied segments, if they are watched.
    #[inline]
    fn log_store(&self) {
        if self.watched.intersects(Streams::EVICTIONS.union(Streams::SYSTEM_EVENTS)) {
            self.log_store_events();
        }
    }

    #[cold]
    fn log_store_events(&self) {
        let dropped = self.shared.store.take_events(|event| match event {
            Event::Evicted(item) => {
                let (size, item) = (item.value_len, EvictedItem(item, self.second));
                self.log(Streams::EVICTIONS, format_args!("type=eviction {item} clsid=1 size={size}"));
            }
            Event::Demoted(item) => {
                let item = EvictedItem(item, self.second);
                self.log(Streams::EVICTIONS, format_args!("type=extwrite {item} clsid=1 bucket=0"));
            }
            // The closest memcached event: a page of the class moves to the pool of free pages. `slabs_moved`
            // counts the same.
            Event::Segment { freed } => {
                let state = if freed { "ok" } else { "fail" };
                self.log(Streams::SYSTEM_EVENTS, format_args!("type=slab_move src=1 dst=0 state={state}"));
            }
        });
        self.shared.log.drop_lines(Streams::EVICTIONS, dropped.evictions);
        self.shared.log.drop_lines(Streams::SYSTEM_EVENTS, dropped.segments);
    }
}

/// What the log says of an item that leaves memory at this second.
struct EvictedItem<'a>(Evicted<'a>, u32);

impl fmt::Display for EvictedItem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &EvictedItem(item, second) = self;
        let (name, fetch) = (KeyName(item.key), if item.fetched { "yes" } else { "no" });
        let ttl = if item.expiry == 0 { -1 } else { i64::from(item.expiry) - i64::from(second) };
        let la = second.saturating_sub(item.last_access);
        write!(f, "key={name} fetch={fetch} ttl={ttl} la={la}")
    }
}

/// The name of a client that has one, as a further word of a line.
struct ClientName<'a>(Option<&'a str>);

impl fmt::Display for ClientName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, " identity={name}"))
    }
}

/// The client's address in the format of the log.
struct ClientEnd<'a>(&'a Address);

impl fmt::Display for ClientEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Address::Tcp(address) => {
                write!(f, "rip={} rport={} transport=tcp", address.ip(), address.port())
            }
            Address::Udp(address) => {
                write!(f, "rip={} rport={} transport=udp", address.ip(), address.port())
            }
            Address::Unix(_) => f.write_str("rip=unix rport=0 transport=local"),
        }
    }
}
