//! Servers of random histories: items, and the commands that clients and routes use.

use std::collections::HashMap;

use net::{CloseReason, Handler, Link, Next, Opened, Progress, Turn};
use stdx::gather::Gather;

use super::lies::Liar;

/// A server. Values say which key they belong to.
#[derive(Default)]
pub(in crate::worker::tests) struct Items {
    items: HashMap<Vec<u8>, StoredItem>,
    /// The CAS of the item that was stored last.
    cas: u64,
    /// It does not always answer what it should.
    pub(super) liar: Option<Liar>,
    /// Its connections, and what was sent over them for which the router must close them.
    pub(super) connections: Vec<(Link, Option<&'static str>)>,
    /// The keys of all requests, if somebody wants to know.
    pub(super) heard: Option<Vec<Vec<u8>>>,
}

struct StoredItem {
    /// The client's, as they were written.
    flags: Vec<u8>,
    value: Vec<u8>,
    cas: u64,
}

/// A connection of a server.
pub(in crate::worker::tests) struct ServerConnection {
    link: Link,
    /// Input of which no whole request is: a request with a large value does not fit the network's buffers.
    input: Vec<u8>,
    /// Nothing is answered any more.
    is_silent: bool,
}

/// A reply, and the length of its request.
struct Served {
    consumed: usize,
    reply: Vec<u8>,
}

impl Items {
    /// A server that notes the keys of all requests.
    pub(super) fn that_notes_keys() -> Items {
        Items { heard: Some(Vec::new()), ..Items::default() }
    }

    /// Serves one request at the start of `input`; `None` if it is not complete.
    fn serve(&mut self, input: &[u8]) -> Option<Served> {
        let end = input.iter().position(|byte| *byte == b'\n')?;
        let words: Vec<&[u8]> = input[..end].trim_ascii_end().split(|byte| *byte == b' ').collect();
        if let Some(heard) = &mut self.heard {
            let keys =
                if words[0].starts_with(b"get") { &words[1..] } else { words.get(1..2).unwrap_or_default() };
            heard.extend(keys.iter().map(|key| key.to_vec()));
        }
        let mut consumed = end + 1;
        let mut take_body = |len: &[u8]| {
            let len: usize = String::from_utf8_lossy(len).parse().expect("a length");
            let body = input.get(end + 1..end + 1 + len + 2)?;
            assert!(body.ends_with(b"\r\n"), "the end of a body");
            consumed = end + 1 + len + 2;
            Some(&body[..len])
        };
        let reply = match words[..] {
            [verb @ (b"get" | b"gets"), ref keys @ ..] => self.values(keys, verb == b"gets"),
            [verb @ (b"set" | b"add"), key, flags, exptime, len] => {
                let body = take_body(len)?;
                let is_stored = self.store(key, flags, body, verb == b"add");
                if is_stored && exptime == b"-1" {
                    self.items.remove(key);
                }
                if is_stored { b"STORED\r\n".to_vec() } else { b"NOT_STORED\r\n".to_vec() }
            }
            [b"cas", key, flags, exptime, len, cas] => {
                let body = take_body(len)?;
                match self.has_cas(key, cas) {
                    None => b"NOT_FOUND\r\n".to_vec(),
                    Some(false) => b"EXISTS\r\n".to_vec(),
                    Some(true) => {
                        self.store(key, flags, body, false);
                        if exptime == b"-1" {
                            self.items.remove(key);
                        }
                        b"STORED\r\n".to_vec()
                    }
                }
            }
            [b"ms", key, len, ref flags @ ..] => {
                let body = take_body(len)?;
                self.meta_set(key, flags, body)
            }
            [b"delete", key] => match self.items.remove(key) {
                Some(_) => b"DELETED\r\n".to_vec(),
                None => b"NOT_FOUND\r\n".to_vec(),
            },
            [b"touch", key, _] => match self.items.contains_key(key) {
                true => b"TOUCHED\r\n".to_vec(),
                false => b"NOT_FOUND\r\n".to_vec(),
            },
            [b"incr", key, by] => match self.add(key, by) {
                Some(number) => format!("{number}\r\n").into_bytes(),
                None => b"NOT_FOUND\r\n".to_vec(),
            },
            [b"version"] => b"VERSION 1\r\n".to_vec(),
            [b"mg", key, ref flags @ ..] => self.meta_get(key, flags),
            [b"md", key, ref flags @ ..] => {
                let code = if self.items.remove(key).is_some() { "HD" } else { "NF" };
                meta_reply(code, key, flags)
            }
            [b"ma", key, ref flags @ ..] => match self.add(key, b"1") {
                None => meta_reply("NF", key, flags),
                Some(number) if flags.contains(&&b"v"[..]) => {
                    let number = number.to_string();
                    let mut reply = meta_reply(&format!("VA {}", number.len()), key, flags);
                    reply.extend_from_slice(format!("{number}\r\n").as_bytes());
                    reply
                }
                Some(_) => meta_reply("HD", key, flags),
            },
            _ => panic!("{}", input[..end].escape_ascii()),
        };
        Some(Served { consumed, reply })
    }

    /// Whether the item of a key has this CAS; `None` if there is none.
    fn has_cas(&self, key: &[u8], cas: &[u8]) -> Option<bool> {
        self.items.get(key).map(|item| item.cas.to_string().as_bytes() == cas)
    }

    fn values(&self, keys: &[&[u8]], with_cas: bool) -> Vec<u8> {
        let mut reply = Vec::new();
        for key in keys {
            if let Some(StoredItem { flags, value, cas }) = self.items.get(*key) {
                let cas = if with_cas { format!(" {cas}") } else { String::new() };
                let rest = format!(" {}{cas}\r\n", value.len());
                for part in [b"VALUE ", *key, b" ", flags, rest.as_bytes(), value, b"\r\n"] {
                    reply.extend_from_slice(part);
                }
            }
        }
        reply.extend_from_slice(b"END\r\n");
        reply
    }

    fn meta_get(&self, key: &[u8], flags: &[&[u8]]) -> Vec<u8> {
        let Some(StoredItem { flags: client_flags, value, cas }) = self.items.get(key) else {
            let opaque: Vec<&[u8]> = flags.iter().filter(|flag| flag.starts_with(b"O")).copied().collect();
            return meta_reply("EN", key, &opaque);
        };
        if !flags.contains(&&b"v"[..]) {
            return self.meta_hit("HD", key, flags, client_flags, *cas);
        }
        let mut reply = self.meta_hit(&format!("VA {}", value.len()), key, flags, client_flags, *cas);
        reply.extend_from_slice(value);
        reply.extend_from_slice(b"\r\n");
        reply
    }

    fn meta_hit(&self, code: &str, key: &[u8], flags: &[&[u8]], client_flags: &[u8], cas: u64) -> Vec<u8> {
        let mut reply = code.as_bytes().to_vec();
        for flag in flags {
            match flag {
                [b'f'] => reply.extend_from_slice(&[b" f", client_flags].concat()),
                [b't'] => reply.extend_from_slice(b" t-1"),
                [b'c'] => reply.extend_from_slice(format!(" c{cas}").as_bytes()),
                [b'k'] => reply.extend_from_slice(&[b" k", key].concat()),
                [b'O', ..] => reply.extend_from_slice(&[b" ", *flag].concat()),
                [b'v' | b'T', ..] => {}
                other => panic!("{}", other.escape_ascii()),
            }
        }
        reply.extend_from_slice(b"\r\n");
        reply
    }

    fn meta_set(&mut self, key: &[u8], flags: &[&[u8]], body: &[u8]) -> Vec<u8> {
        let cas = flags.iter().find_map(|flag| flag.strip_prefix(b"C"));
        match cas.map(|cas| self.has_cas(key, cas)) {
            Some(None) => return meta_reply("NF", key, flags),
            Some(Some(false)) => return meta_reply("EX", key, flags),
            None | Some(Some(true)) => {}
        }
        if flags.contains(&&b"T-1"[..]) {
            self.items.remove(key);
            return meta_reply("HD", key, flags);
        }
        let client_flags = flags.iter().find_map(|flag| flag.strip_prefix(b"F")).unwrap_or(b"0");
        let is_stored = self.store(key, client_flags, body, flags.contains(&&b"ME"[..]));
        meta_reply(if is_stored { "HD" } else { "NS" }, key, flags)
    }

    pub(in crate::worker::tests) fn store(
        &mut self,
        key: &[u8],
        flags: &[u8],
        value: &[u8],
        only_new: bool,
    ) -> bool {
        if only_new && self.items.contains_key(key) {
            return false;
        }
        self.cas += 1;
        let item = StoredItem { flags: flags.to_vec(), value: value.to_vec(), cas: self.cas };
        self.items.insert(key.to_vec(), item);
        true
    }

    fn add(&mut self, key: &[u8], by: &[u8]) -> Option<u64> {
        let item = self.items.get_mut(key)?;
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
        let sum = number(&item.value)?.wrapping_add(number(by)?);
        item.value = sum.to_string().into_bytes();
        Some(sum)
    }
}

/// A reply of the meta protocol without a value.
fn meta_reply(code: &str, key: &[u8], flags: &[&[u8]]) -> Vec<u8> {
    let mut reply = code.as_bytes().to_vec();
    for flag in flags {
        match flag {
            [b'k'] => reply.extend_from_slice(&[b" k", key].concat()),
            [b'O', ..] => reply.extend_from_slice(&[b" ", *flag].concat()),
            _ => {}
        }
    }
    reply.extend_from_slice(b"\r\n");
    reply
}

impl Handler for Items {
    type Connection = ServerConnection;
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Vec<u8>>) -> ServerConnection {
        let early = self.liar.as_mut().and_then(Liar::greeting);
        self.connections.push((opened.link, early));
        if let Some(early) = early
            && let Some(output) = turn.output(opened.link)
        {
            output.copy(early.as_bytes());
        }
        ServerConnection { link: opened.link, input: Vec::new(), is_silent: false }
    }

    fn on_bytes(
        &mut self,
        connection: &mut ServerConnection,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        connection.input.extend_from_slice(input);
        let (buffered, mut at) = (std::mem::take(&mut connection.input), 0);
        let mut next = Next::Read;
        while let Some(Served { consumed, reply }) = self.serve(&buffered[at..]) {
            at += consumed;
            if connection.is_silent {
                continue;
            }
            let Some(liar) = &mut self.liar else {
                output.copy(&reply);
                continue;
            };
            let told = liar.tell(reply);
            output.copy(&told.bytes);
            connection.is_silent = told.ends;
            if told.lie.is_some()
                && let Some(noted) = self.connections.iter_mut().find(|(link, _)| *link == connection.link)
            {
                noted.1 = told.lie;
            }
            if told.closes {
                next = Next::Close(CloseReason::Normal);
                break;
            }
        }
        connection.input.extend_from_slice(&buffered[at..]);
        Progress { consumed: input.len(), next }
    }

    fn on_close(&mut self, connection: ServerConnection, _reason: CloseReason, _turn: &mut Turn<Vec<u8>>) {
        self.connections.retain(|(link, _)| *link != connection.link);
    }
}
