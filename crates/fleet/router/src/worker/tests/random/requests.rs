//! Requests of the clients of random histories, and which replies they accept.

use std::collections::{HashMap, HashSet};

use stdx::prng::Prng;

/// What a client expects of the reply to a request.
pub(super) enum Awaited {
    /// This, and no error.
    Exactly(String),
    /// One of these lines.
    Line(&'static [&'static str]),
    /// A number, or `NOT_FOUND`.
    Number,
    /// Values of some of these keys, in this order.
    Values { keys: Vec<String>, with_cas: bool },
    /// A meta reply.
    Meta(MetaAwaited),
}

/// A meta reply. With `q` there may be none.
pub(super) struct MetaAwaited {
    key: String,
    codes: &'static [&'static str],
    opaque: Option<String>,
    shows_key: bool,
    is_quiet: bool,
}

/// What a reply at the front of the bytes is.
enum Found {
    /// So many bytes.
    Reply(usize),
    /// There is none.
    Nothing,
    /// An error of so many bytes, or none: the error may be that of a later request.
    Perhaps(usize),
}

/// Lengths of values: small ones, and those around the sizes from which values are received and held in other ways.
const LENGTHS: [usize; 8] = [0, 0, 0, 10, 5_000, 11_000, 12_280, 13_000];

/// Replies to a `set`. A NullRoute stores nothing.
const STORED: &[&str] = &["STORED", "NOT_STORED"];

/// Replies to a `cas`. One to a `set` is of the same kind: a server that lies can answer it so.
const STORED_IF: &[&str] = &["STORED", "NOT_STORED", "NOT_FOUND", "EXISTS"];

/// A value that names its key and says its length.
pub(super) fn value_of(key: &str, filler: usize) -> String {
    format!("{key}={filler}:{}~", "v".repeat(filler))
}

/// Whether `body` is a value of `key`, whole.
fn is_value_of(key: &str, body: &[u8]) -> bool {
    let Some(rest) = body.strip_prefix(format!("{key}=").as_bytes()) else { return false };
    let Some(colon) = rest.iter().position(|byte| *byte == b':') else { return false };
    let filler = std::str::from_utf8(&rest[..colon]).ok().and_then(|len| len.parse::<usize>().ok());
    filler.is_some_and(|filler| {
        let rest = &rest[colon + 1..];
        rest.len() == filler + 1 && rest.ends_with(b"~") && rest[..filler].iter().all(|byte| *byte == b'v')
    })
}

/// The line at the front, and what follows it.
fn line(rest: &[u8]) -> Result<(&str, &[u8]), String> {
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or("a reply is missing")? + 1;
    let (line, after) = rest.split_at(end);
    let line = line.strip_suffix(b"\r\n").ok_or("a line without its end")?;
    Ok((std::str::from_utf8(line).map_err(|_| format!("not text: {}", line.escape_ascii()))?, after))
}

/// Takes the value of `key` from the front.
fn body<'r>(rest: &'r [u8], len: &str, key: &str) -> Result<&'r [u8], String> {
    let len: usize = len.parse().map_err(|_| format!("a length: {len}"))?;
    let body = rest.get(..len + 2).ok_or("half a value")?;
    match body.strip_suffix(b"\r\n").is_some_and(|body| is_value_of(key, body)) {
        true => Ok(&rest[len + 2..]),
        false => Err(format!("not the value of {key}: {}", super::super::shortened(body))),
    }
}

impl Awaited {
    /// The reply at the front of `rest`.
    fn find(&self, rest: &[u8]) -> Result<Found, String> {
        if let Awaited::Exactly(text) = self {
            return match rest.starts_with(text.as_bytes()) {
                true => Ok(Found::Reply(text.len())),
                false => Err(format!("expected {}", super::super::shortened(text.as_bytes()))),
            };
        }
        if let Awaited::Meta(meta) = self {
            return meta.find(rest);
        }
        let mut after = rest;
        let mut left = match self {
            Awaited::Values { keys, .. } => keys.iter(),
            _ => [].iter(),
        };
        loop {
            let (found, behind) = line(after)?;
            after = behind;
            let words: Vec<&str> = found.split(' ').collect();
            match (self, &words[..]) {
                (_, ["SERVER_ERROR", ..]) | (Awaited::Values { .. }, ["END"]) => break,
                (Awaited::Line(lines), _) if lines.contains(&found) => break,
                (Awaited::Number, ["NOT_FOUND"]) => break,
                (Awaited::Number, [number]) if number.parse::<u64>().is_ok() => break,
                (Awaited::Values { with_cas, .. }, ["VALUE", key, "0", len, cas @ ..])
                    if cas.len() == usize::from(*with_cas) =>
                {
                    if !left.any(|other| other == key) {
                        return Err(format!("a value of {key}, which is not one of the next keys"));
                    }
                    after = body(after, len, key)?;
                }
                _ => return Err(format!("another reply: {found}")),
            }
        }
        Ok(Found::Reply(rest.len() - after.len()))
    }
}

impl MetaAwaited {
    fn find(&self, rest: &[u8]) -> Result<Found, String> {
        if rest.is_empty() && self.is_quiet {
            return Ok(Found::Nothing);
        }
        let (found, after) = line(rest)?;
        let len = rest.len() - after.len();
        if found.starts_with("SERVER_ERROR ") {
            return Ok(if self.is_quiet { Found::Perhaps(len) } else { Found::Reply(len) });
        }
        let words: Vec<&str> = found.split(' ').collect();
        let is_own = self.opaque.as_ref().is_none_or(|opaque| words.contains(&&**opaque));
        if !is_own || !self.codes.contains(&words[0]) {
            return match self.is_quiet {
                true => Ok(Found::Nothing),
                false => Err(format!("another reply: {found}")),
            };
        }
        let key = format!("k{}", self.key);
        if self.shows_key && words[0] != "EN" && !words.contains(&&*key) {
            return Err(format!("without its key {key}: {found}"));
        }
        let after = match words[0] {
            "VA" => body(after, words[1], &self.key)?,
            _ => after,
        };
        Ok(Found::Reply(rest.len() - after.len()))
    }
}

/// Checks that `bytes` are the replies to all these requests, in their order.
pub(super) fn check(awaited: &[Awaited], bytes: &[u8]) -> Result<(), String> {
    let (mut left, mut seen) = (vec![(0, 0)], HashSet::new());
    let mut furthest = (0, String::new());
    while let Some((mut number, mut at)) = left.pop() {
        let error = loop {
            let Some(next) = awaited.get(number) else {
                match bytes.len() - at {
                    0 => return Ok(()),
                    more => break format!("{more} bytes without a request"),
                }
            };
            match next.find(&bytes[at..]) {
                Ok(Found::Reply(len)) => at += len,
                Ok(Found::Nothing) => {}
                Ok(Found::Perhaps(len)) => {
                    if seen.insert((number, at)) {
                        left.push((number + 1, at));
                    }
                    at += len;
                }
                Err(error) => break error,
            }
            number += 1;
        };
        if at >= furthest.0 {
            let (before, here) = (&bytes[at.saturating_sub(200)..at], &bytes[at..bytes.len().min(at + 200)]);
            let shown = format!("{} <here> {}", before.escape_ascii(), here.escape_ascii());
            furthest = (at, format!("request {number} of {}: {error}: {shown}", awaited.len()));
        }
    }
    Err(furthest.1)
}

/// A client.
pub(super) struct Client {
    /// Its keys begin with this.
    pub(super) name: String,
    /// Different keys.
    pub(super) keys: u64,
    opaque: u64,
    pub(super) awaited: Vec<Awaited>,
    /// Large values are stored, too.
    pub(super) sends_large: bool,
    /// Its servers lie.
    pub(super) is_lied_to: bool,
    /// What its items are, if nobody else and no error changes them: then all replies are known.
    pub(super) model: Option<HashMap<String, String>>,
}

impl Client {
    pub(super) fn new(name: &str, keys: u64) -> Client {
        Client {
            name: name.to_owned(),
            keys,
            opaque: 0,
            awaited: Vec::new(),
            sends_large: false,
            is_lied_to: false,
            model: None,
        }
    }

    fn stored(&self) -> Awaited {
        Awaited::Line(if self.is_lied_to { STORED_IF } else { STORED })
    }

    fn key(&self, prng: &mut Prng) -> String {
        format!("{}:{}", self.name, prng.below(self.keys))
    }

    fn value(&self, key: &str, prng: &mut Prng) -> String {
        let filler = match prng.below(400) {
            0 if self.sends_large => 300_000 + prng.below(1_800_000) as usize,
            1..20 => 60_000,
            _ => LENGTHS[prng.below(8) as usize],
        };
        value_of(key, filler)
    }

    /// Writes one request, or several.
    pub(super) fn request(&mut self, prng: &mut Prng, out: &mut String) {
        let key = self.key(prng);
        if self.model.is_some() {
            return self.known_request(key, prng, out);
        }
        let awaited = match prng.below(21) {
            0..4 => {
                let value = self.value(&key, prng);
                out.push_str(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
                self.stored()
            }
            4 => {
                let value = value_of(&key, 0);
                out.push_str(&format!("set {key} 0 0 {} noreply\r\n{value}\r\n", value.len()));
                return;
            }
            5 => {
                out.push_str(&format!("delete {key}\r\n"));
                Awaited::Line(&["DELETED", "NOT_FOUND"])
            }
            6 => {
                out.push_str(&format!("touch {key} 100\r\n"));
                Awaited::Line(&["TOUCHED", "NOT_FOUND"])
            }
            // Counters have keys of their own.
            7 => {
                out.push_str(&format!("incr n{key} 1\r\n"));
                Awaited::Number
            }
            8 => {
                out.push_str(&format!("set n{key} 0 0 1\r\n7\r\n"));
                self.stored()
            }
            9 => {
                out.push_str(&format!("gets {key}\r\n"));
                Awaited::Values { keys: vec![key], with_cas: true }
            }
            10 => {
                let value = value_of(&key, 20);
                out.push_str(&format!("cas {key} 0 0 {} {}\r\n{value}\r\n", value.len(), prng.below(99)));
                Awaited::Line(STORED_IF)
            }
            11..16 => return self.meta_requests(prng, out),
            16 | 17 => {
                let keys: Vec<String> = (0..2 + prng.below(30)).map(|_| self.key(prng)).collect();
                out.push_str(&format!("get {}\r\n", keys.join(" ")));
                Awaited::Values { keys, with_cas: false }
            }
            _ => {
                out.push_str(&format!("get {key}\r\n"));
                Awaited::Values { keys: vec![key], with_cas: false }
            }
        };
        self.awaited.push(awaited);
    }

    /// Several requests of the meta protocol, most of them quiet, at times with `mn` behind them.
    fn meta_requests(&mut self, prng: &mut Prng, out: &mut String) {
        for _ in 0..1 + prng.below(6) {
            let key = self.key(prng);
            let is_quiet = prng.below(3) > 0;
            self.opaque += 1;
            let opaque = (is_quiet || prng.below(2) == 0).then(|| format!("O{}x{}", self.name, self.opaque));
            let shows_key = prng.below(2) == 0;
            let mut flags = String::new();
            if shows_key {
                flags.push_str(" k");
            }
            if let Some(opaque) = &opaque {
                flags.push_str(&format!(" {opaque}"));
            }
            if is_quiet {
                flags.push_str(" q");
            }
            let codes: &[&str] = match prng.below(6) {
                0 => {
                    let value = self.value(&key, prng);
                    out.push_str(&format!("ms {key} {}{flags}\r\n{value}\r\n", value.len()));
                    &["HD", "NS"]
                }
                1 => {
                    out.push_str(&format!("md {key}{flags}\r\n"));
                    &["HD", "NF"]
                }
                kind => {
                    let more = ["", " c", " t f", " c T30"][prng.below(4) as usize];
                    let value = if kind > 2 { " v" } else { "" };
                    out.push_str(&format!("mg {key}{value}{more}{flags}\r\n"));
                    if kind > 2 { &["VA", "EN"] } else { &["HD", "EN"] }
                }
            };
            self.awaited.push(Awaited::Meta(MetaAwaited { key, codes, opaque, shows_key, is_quiet }));
        }
        if prng.below(2) == 0 {
            out.push_str("mn\r\n");
            self.awaited.push(Awaited::Exactly("MN\r\n".to_owned()));
        }
    }

    /// A request whose reply follows from those before it.
    fn known_request(&mut self, key: String, prng: &mut Prng, out: &mut String) {
        let value = self.value(&key, prng);
        let model = self.model.as_mut().expect("a model");
        let found = model.get(&key);
        let reply = match prng.below(6) {
            0 | 1 => {
                out.push_str(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
                model.insert(key, value);
                "STORED\r\n".to_owned()
            }
            2 => {
                out.push_str(&format!("delete {key}\r\n"));
                let was_there = model.remove(&key).is_some();
                if was_there { "DELETED\r\n".to_owned() } else { "NOT_FOUND\r\n".to_owned() }
            }
            3 => {
                out.push_str(&format!("mg {key} v q\r\nmn\r\n"));
                found.map_or(String::new(), |found| format!("VA {}\r\n{found}\r\n", found.len())) + "MN\r\n"
            }
            _ => {
                out.push_str(&format!("get {key}\r\n"));
                let value = |found: &String| format!("VALUE {key} 0 {}\r\n{found}\r\n", found.len());
                found.map_or(String::new(), value) + "END\r\n"
            }
        };
        self.awaited.push(Awaited::Exactly(reply));
    }
}
