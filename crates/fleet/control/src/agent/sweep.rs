//! Sweeps of a server: the keys in it that belong to another slot of its cluster are deleted.
//!
//! A server that keeps its slot while its cluster grows keeps what it had of the keys that move, and gets their deletes no longer.
//! Before such keys come back to it they are deleted, so that nobody finds an old value.
//!
//! A thread of its own reads the server's list of keys over one connection (`lru_crawler metadump`), and deletes those that are not the
//! server's own over another one, so many at a time. It begins anew until a list has none of them: an item may move within the server
//! while the list is made. Stock memcached does the same.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use stdx::log_level::LogLevel;

use crate::routers::pool_owners::PoolOwners;
use crate::service::SayLine;
use crate::service::turn::{SweepOrder, SweepReport};
use crate::wire::{PeerPlace, Stream, connect};
use crate::words::in_full;

/// Time for the next part of the server's answer: its crawler rests between parts.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Deletes that are under way. Each lot is answered before the next one is sent, so clients wait for 64 deletes at most.
const DELETES_AT_A_TIME: usize = 64;
/// Lists until one has no key of others. More than two say that somebody stores such keys.
const LISTS_MAX: usize = 8;
/// Bytes of a line: the key has up to 250 bytes, which are written as up to 750.
const LINE_LEN_MAX: u64 = 4096;
/// The server's whole hash table, or all its LRU lists for a server that does not know that word.
const LISTS: [&str; 2] = ["hash", "all"];

/// The sweeps of one server.
pub(super) struct Sweeper {
    place: PeerPlace,
    report: Arc<Mutex<SweepReport>>,
    running: Option<JoinHandle<()>>,
    /// The order that was begun last.
    begun: u64,
}

impl Sweeper {
    pub(super) fn new(place: PeerPlace) -> Sweeper {
        Sweeper { place, report: Arc::default(), running: None, begun: 0 }
    }

    /// What became of orders.
    pub(super) fn report(&self) -> SweepReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins what is not done yet. One sweep at a time: while another one is going on, the order comes again.
    pub(super) fn on_order(&mut self, order: &SweepOrder, member: &str, say: &SayLine) {
        let is_running = self.running.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_running || self.report().done >= order.number {
            return;
        }
        if std::mem::replace(&mut self.begun, order.number) != order.number {
            // What was wrong with another order says nothing of this one.
            self.report.lock().unwrap_or_else(PoisonError::into_inner).trouble = None;
        }
        let (order, place, report) = (order.clone(), self.place.clone(), Arc::clone(&self.report));
        let (member, say) = (member.to_owned(), Arc::clone(say));
        let run = move || {
            let swept = sweep(&place, &order);
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            match swept {
                Ok(count) => {
                    *report = SweepReport { done: order.number, trouble: None };
                    let slots = order.slots;
                    say(
                        LogLevel::Info,
                        &format!("{member} has no keys of other slots of {slots}: {count} were deleted"),
                    );
                }
                Err(error) => {
                    let trouble = format!("sweep {member}: {}", in_full(&error));
                    if report.trouble.as_ref() != Some(&trouble) {
                        say(LogLevel::Warning, &trouble);
                    }
                    report.trouble = Some(trouble);
                }
            }
        };
        match std::thread::Builder::new().name("sweep".to_owned()).spawn(run) {
            Ok(thread) => self.running = Some(thread),
            Err(error) => {
                let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                report.trouble = Some(format!("start a thread to sweep: {error}"));
            }
        }
    }
}

/// Why a sweep has ended before its end.
#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error("understand its order: {0}")]
    Order(String),
    #[error("connect to {0}")]
    Connect(String, #[source] io::Error),
    #[error("read its list of keys")]
    List(#[source] io::Error),
    #[error("list its keys: it says {0}")]
    Refused(String),
    #[error("delete a key")]
    Delete(#[source] io::Error),
    #[error("delete a key: it says {0}")]
    NotDeleted(String),
    #[error("find no keys of others: {LISTS_MAX} lists had some, so somebody stores them")]
    Endless,
}

/// Sweeps a server. Returns how many keys were deleted.
fn sweep(place: &PeerPlace, order: &SweepOrder) -> Result<u64, SweepError> {
    let mut owners = PoolOwners::new(&order.pool, order.slots).map_err(SweepError::Order)?;
    // A key that no router would ask for is nobody's, and harmless.
    let mut is_foreign = |key: &[u8]| owners.slot_of(key).is_some_and(|slot| slot != order.own);
    let mut all = 0;
    for _ in 0..LISTS_MAX {
        match sweep_once(place, &mut is_foreign)? {
            0 => return Ok(all),
            count => all += count,
        }
    }
    Err(SweepError::Endless)
}

fn sweep_once(place: &PeerPlace, is_foreign: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, SweepError> {
    let (mut lines, first) = list(place)?;
    let mut deletes = Deletes { stream: BufReader::new(open(place)?), waiting: Vec::new(), count: 0 };
    let mut line = first;
    while line != b"END" {
        match key_of(&line) {
            Some(key) if is_foreign(&key) => deletes.add(key)?,
            Some(_) => {}
            None => return Err(SweepError::Refused(shown(&line))),
        }
        line = read_line(&mut lines).map_err(SweepError::List)?;
    }
    deletes.finish()
}

/// The list of a server's keys, and its first line.
fn list(place: &PeerPlace) -> Result<(BufReader<Stream>, Vec<u8>), SweepError> {
    let mut refused = Vec::new();
    for word in LISTS {
        let mut stream = open(place)?;
        let asked = stream.write_all(format!("lru_crawler metadump {word}\r\n").as_bytes());
        asked.map_err(SweepError::List)?;
        let mut lines = BufReader::new(stream);
        let mut first = read_line(&mut lines).map_err(SweepError::List)?;
        // Some versions say first that the crawl begins.
        if first == b"OK" {
            first = read_line(&mut lines).map_err(SweepError::List)?;
        }
        if first == b"END" || key_of(&first).is_some() {
            return Ok((lines, first));
        }
        refused = first;
        // Only a class that it does not know is asked for by another word.
        if !refused.starts_with(b"BADCLASS") && !refused.starts_with(b"CLIENT_ERROR") {
            break;
        }
    }
    Err(SweepError::Refused(shown(&refused)))
}

fn open(place: &PeerPlace) -> Result<Stream, SweepError> {
    let opened =
        connect(place, ANSWER_WITHIN).and_then(|stream| stream.limit(ANSWER_WITHIN).map(|()| stream));
    opened.map_err(|error| SweepError::Connect(place.address.clone(), error))
}

/// A line without its end. The end of the stream is an error: a list that was cut off is not whole.
fn read_line(stream: &mut BufReader<Stream>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    io::Read::take(&mut *stream, LINE_LEN_MAX).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    while line.last().is_some_and(|byte| matches!(byte, b'\r' | b' ')) {
        line.pop();
    }
    Ok(line)
}

/// The key of a line of the list.
fn key_of(line: &[u8]) -> Option<Vec<u8>> {
    let word = line.strip_prefix(b"key=")?.split(|byte| *byte == b' ').next()?;
    Some(percent_encoding::percent_decode(word).collect())
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line).into_owned();
    stdx::escape::line(&text[..text.floor_char_boundary(200)]).to_string()
}

/// Keys that are being deleted.
struct Deletes {
    stream: BufReader<Stream>,
    waiting: Vec<Vec<u8>>,
    count: u64,
}

impl Deletes {
    fn add(&mut self, key: Vec<u8>) -> Result<(), SweepError> {
        // No text request has such a key, so no router asks for it.
        if key.iter().any(|byte| byte.is_ascii_control() || *byte == b' ') {
            return Ok(());
        }
        self.waiting.push(key);
        if self.waiting.len() < DELETES_AT_A_TIME { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<(), SweepError> {
        let mut lot = Vec::new();
        for key in &self.waiting {
            lot.extend_from_slice(&[b"delete ", &**key, b"\r\n"].concat());
        }
        self.stream.get_mut().write_all(&lot).map_err(SweepError::Delete)?;
        for _ in self.waiting.drain(..) {
            let answer = read_line(&mut self.stream).map_err(SweepError::Delete)?;
            match &*answer {
                b"DELETED" => self.count += 1,
                // It has expired or was deleted meanwhile.
                b"NOT_FOUND" => {}
                other => return Err(SweepError::NotDeleted(shown(other))),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, SweepError> {
        self.send()?;
        Ok(self.count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// A server with these keys that answers as memcached does, until it was asked `lists` times for its list. Returns its address and
    /// what it was asked.
    fn serve(mut keys: Vec<String>, lists: usize, knows_hash: bool) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serve = move || {
            let (mut asked, mut listed) = (Vec::new(), 0);
            while listed < lists {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut line = [0; 100];
                let len = stream.read(&mut line).expect("a request");
                let request = String::from_utf8_lossy(&line[..len]).trim().to_owned();
                asked.push(request.clone());
                if request.ends_with("hash") && !knows_hash {
                    stream.write_all(b"BADCLASS invalid class id\r\n").expect("an answer");
                    continue;
                }
                listed += 1;
                let line = |key: &String| {
                    format!("key={} exp=-1 la=1 cas=2 fetch=no cls=1 size=64 \n", key.replace('/', "%2F"))
                };
                let list: String = keys.iter().map(line).collect();
                // Newer versions of memcached say so first, older ones do not know the word either.
                let begins: &[u8] = if knows_hash { b"OK\r\n" } else { b"" };
                stream.write_all(begins).expect("an answer");
                // The deletes come while the list is read.
                stream.write_all(list.as_bytes()).expect("a list");
                let (other, _) = listener.accept().expect("a connection for deletes");
                stream.write_all(b"END\r\n").expect("its end");
                let mut requests = BufReader::new(other);
                let mut line = String::new();
                while requests.read_line(&mut line).expect("requests") > 0 {
                    let key = line.trim().strip_prefix("delete ").expect("a delete").to_owned();
                    let had = keys.len();
                    keys.retain(|one| *one != key);
                    let answer = if keys.len() < had { "DELETED\r\n" } else { "NOT_FOUND\r\n" };
                    requests.get_mut().write_all(answer.as_bytes()).expect("an answer");
                    line.clear();
                }
            }
            asked.extend(keys);
            asked
        };
        (address, std::thread::spawn(serve))
    }

    fn order(own: usize) -> SweepOrder {
        SweepOrder { number: 7, pool: BTreeMap::new(), slots: 3, own }
    }

    fn place(address: String) -> PeerPlace {
        PeerPlace { address, tls: None }
    }

    #[test]
    fn keys_of_other_slots_are_deleted_and_no_others() {
        for knows_hash in [true, false] {
            let keys: Vec<String> = (0..300).map(|number| format!("/a/key:{number}")).collect();
            let mut owners = PoolOwners::new(&BTreeMap::new(), 3).expect("a pool");
            let (own, foreign): (Vec<_>, Vec<_>) =
                keys.iter().cloned().partition(|key| owners.slot_of(key.as_bytes()) == Some(1));
            assert!(own.len() > 50 && foreign.len() > 150);
            let (address, server) = serve(keys, 2, knows_hash);
            assert_eq!(sweep(&place(address), &order(1)).expect("it is swept"), foreign.len() as u64);
            let asked = server.join().expect("the server ends");
            let words: &[&str] = if knows_hash { &["hash", "hash"] } else { &["hash", "all", "hash", "all"] };
            let lists: Vec<String> =
                words.iter().map(|word| format!("lru_crawler metadump {word}")).collect();
            assert_eq!(asked, [lists, own].concat());
        }
    }

    #[test]
    fn a_server_that_does_not_list_its_keys_says_why() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut line = [0; 100];
            let _ = stream.read(&mut line).expect("a request");
            stream.write_all(b"ERROR metadump not allowed\r\n").expect("an answer");
        });
        let error = sweep(&place(address), &order(0)).expect_err("it is refused");
        assert_eq!(error.to_string(), "list its keys: it says ERROR metadump not allowed");
        serve.join().expect("the server ends");
    }

    #[test]
    fn a_list_that_is_cut_off_is_no_list() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut line = [0; 100];
            let _ = stream.read(&mut line).expect("a request");
            stream.write_all(b"key=a exp=-1 la=1 cas=2 fetch=no cls=1 size=64 \nkey=b").expect("a part");
            let _ = listener.accept().expect("a connection for deletes");
        });
        assert!(matches!(sweep(&place(address), &order(0)), Err(SweepError::List(_))));
        serve.join().expect("the server ends");
    }
}
