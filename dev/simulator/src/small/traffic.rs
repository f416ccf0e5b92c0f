//! Clients: each has a router of its own, writes keys of its own, and reads the keys of all.

use stdx::prng::Prng;

use super::askers::{Answer, Askers};
use super::history::{KeyHistory, Reply, Request, Wish};
use super::shape::{KEYS, ROUTERS, SLOTS};

/// A client waits so long for an answer: longer than a router waits for a server.
const ANSWER_WITHIN_MS: u64 = 3_000;
/// Between an answer and the next request, and as much at random.
const PAUSE_MS: u64 = 120;
/// Until a client looks again whether its answer has come.
const LOOK_MS: u64 = 15;

/// A key by its number.
pub(super) fn key(number: usize) -> String {
    format!("k{number:02}")
}

/// All clients and their keys.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) histories: Vec<KeyHistory>,
    /// What each client waits for: a key, a place in its history, and since when.
    waiting: [Option<(usize, usize, u64)>; ROUTERS],
    /// Whether the last answer of each router for each slot was none but an error.
    pub(super) answered: [[bool; SLOTS]; ROUTERS],
    /// The slot of each key.
    pub(super) slots: Vec<usize>,
    /// The same when the cluster has grown.
    pub(super) grown: Vec<usize>,
    pub(super) requests: u64,
    /// A planted bug.
    hides_failed_deletes: bool,
}

/// A request that has come to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    pub(super) key: usize,
    pub(super) request: Request,
}

impl Traffic {
    pub(super) fn new(slots: Vec<usize>, grown: Vec<usize>, hides_failed_deletes: bool) -> Traffic {
        Traffic {
            histories: vec![KeyHistory::default(); KEYS],
            waiting: [None; ROUTERS],
            answered: [[false; SLOTS]; ROUTERS],
            slots,
            grown,
            requests: 0,
            hides_failed_deletes,
        }
    }

    /// The slots that a key may have: one, or that of the smaller and that of the larger layout.
    pub(super) fn places(&self, key: usize) -> Vec<usize> {
        let mut places = vec![self.slots[key], self.grown[key]];
        places.dedup();
        places
    }

    /// A client's moment: it takes an answer, and asks the next question. Returns when its next moment is.
    pub(super) fn moment(
        &mut self,
        client: usize,
        now_ms: u64,
        askers: &mut Askers,
        prng: &mut Prng,
    ) -> (Option<Finished>, u64) {
        let mut finished = None;
        if let Some((key, place, since_ms)) = self.waiting[client] {
            let answer = match askers.take(client) {
                Some(answer) => answer,
                None if now_ms >= since_ms + ANSWER_WITHIN_MS => Answer { at_us: now_ms * 1000, text: None },
                None => return (None, now_ms + LOOK_MS),
            };
            self.waiting[client] = None;
            finished = Some(self.finish(client, key, place, &answer));
            if answer.text.is_some() {
                return (finished, now_ms + PAUSE_MS + prng.below(PAUSE_MS));
            }
        }
        self.ask(client, now_ms, askers, prng);
        (finished, now_ms + 1)
    }

    fn finish(&mut self, client: usize, key: usize, place: usize, answer: &Answer) -> Finished {
        let request = &mut self.histories[key].requests[place];
        request.until_us = answer.at_us;
        request.reply = answer.text.as_ref().map_or(Reply::Failed, |text| read(text, key, request.wish));
        if self.hides_failed_deletes && request.wish == Wish::Delete && request.reply == Reply::Failed {
            request.reply = Reply::NotFound;
        }
        self.answered[client][self.slots[key]] = request.reply != Reply::Failed;
        Finished { key, request: *request }
    }

    fn ask(&mut self, client: usize, now_ms: u64, askers: &mut Askers, prng: &mut Prng) {
        let lot = prng.below(100);
        let own = client + ROUTERS * prng.below(((KEYS - client - 1) / ROUTERS + 1) as u64) as usize;
        let (key_number, wish) = match lot {
            0..30 => (own, Wish::Set(self.histories[own].version + 1)),
            30..42 => (own, Wish::Delete),
            _ => (prng.below(KEYS as u64) as usize, Wish::Get),
        };
        let history = &mut self.histories[key_number];
        let name = key(key_number);
        let question = match wish {
            Wish::Set(version) => {
                history.version = version;
                let value = format!("{name}={version}");
                format!("set {name} 0 0 {}\r\n{value}\r\n", value.len())
            }
            Wish::Delete => format!("delete {name}\r\n"),
            Wish::Get => format!("get {name}\r\n"),
        };
        askers.ask(client, &question);
        self.waiting[client] = Some((key_number, history.requests.len(), now_ms));
        history.requests.push(Request::new(client, wish, now_ms * 1000));
        self.requests += 1;
    }
}

/// What an answer means.
fn read(text: &[u8], number: usize, wish: Wish) -> Reply {
    let text = String::from_utf8_lossy(text);
    match (wish, &*text) {
        (Wish::Set(_), "STORED\r\n") => Reply::Stored,
        (Wish::Delete, "DELETED\r\n") => Reply::Deleted,
        (Wish::Delete, "NOT_FOUND\r\n") => Reply::NotFound,
        (Wish::Get, "END\r\n") => Reply::Miss,
        (_, error) if error.starts_with("SERVER_ERROR") => Reply::Failed,
        (Wish::Get, found) => value(found, number).map_or(Reply::Nonsense, Reply::Value),
        _ => Reply::Nonsense,
    }
}

fn value(found: &str, number: usize) -> Option<u64> {
    let name = key(number);
    let (head, rest) = found.strip_suffix("\r\nEND\r\n")?.split_once("\r\n")?;
    let is_of_key = head.strip_prefix("VALUE ")?.strip_prefix(&*name)?.starts_with(' ');
    rest.strip_prefix(&format!("{name}="))?.parse().ok().filter(|_| is_of_key)
}
