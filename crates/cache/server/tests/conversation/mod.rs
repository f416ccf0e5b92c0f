//! Random conversations: valid and damaged requests. `unwritten` lists requests that are never generated,
//! with reasons.

#[allow(dead_code, reason = "not every test compares with a memcached")]
pub(crate) mod unwritten;

use stdx::prng::Prng;
use unwritten::{FOLLOWED, Peer, What};

const KEYS: &[&str] = &["a", "b", "counter", "foo", "prefix:key", "k-1"];
/// Keys in base64 for reading and deleting: of items that were stored under text, too.
const BINARY_KEYS: &[&str] = &["Zm9v", "AAEC", "Zm9vYmFy", "YQ==", "Zm9", "Zm 9", "Y291bnRlcg=="];
/// For storing: nothing else makes a new item of these. Without `What::MadeInBase64`.
const STORED_BINARY_KEYS: &[&str] = &["AAEC", "Zm9vYmFy", "Zm9", "Zm 9"];
/// For counting: items that were stored under text. Without `What::MadeInBase64`.
const COUNTED_BINARY_KEYS: &[&str] = &["Zm9v", "YQ==", "Zm9", "Zm 9", "Y291bnRlcg=="];
const EXPTIMES: &[&str] =
    &["0", "0", "0", "100", "-1", "2592000", "2592001", "4000000000", "x", "", "99999999999"];
/// Without `What::LargeTime`.
const SMALL_EXPTIMES: &[&str] = &["0", "0", "0", "100", "-1", "2592000", "2592001", "x", ""];
/// Expiration times with which no store is refused.
const GOOD_EXPTIMES: &[&str] = &["0", "0", "0", "100", "-1", "2592000", "2000000000"];
const GOOD_FLAGS: &[&str] = &["0", "1", "5", "4294967295"];
const NUMBERS: &[&str] =
    &["0", "1", "2", "5", "10", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616"];
const ODD_NUMBERS: &[&str] = &["x", "1x", "+5", "-5", "007", "-0", "1.5", " ", "0x10"];
/// Without `What::BlankValue`.
const VALUES: &[&str] =
    &["", "0", "5", "99", "9 ", "18446744073709551615", "-1", "hello", "two words", "line\r\nbreak", "\r\nx"];
const LONG_VALUES: &[usize] =
    &[100, 2000, 16_000, 16_384, 32_767, 32_768, 70_000, 600_000, 1_048_000, 1_100_000];
const ADMIN: &[&str] = &[
    "version",
    "verbosity 0",
    "verbosity",
    "flush_all",
    "flush_all 0",
    "flush_all noreply",
    "flush_all -1",
    "flush_all x",
    "flush_all 100000",
    "cache_memlimit 64",
    "cache_memlimit 1",
    "cache_memlimit x",
    "lru_crawler enable",
    "lru_crawler sleep 100",
    "lru_crawler sleep 1000001",
    "lru_crawler tocrawl 5",
    "lru mode segmented",
    "lru mode x",
    "lru temp_ttl 100",
    "lru tune 10 20 0.1 2.0",
    "slabs automove 0",
    "slabs automove 1",
    "slabs automove x",
    "slabs reassign 1 1",
    "stats bogus",
    "stats detail",
    "shutdown",
    "mn",
    "mn x",
    "me a",
    "me Zm9v b",
    "me missing",
    "bogus",
    "",
    "x",
    "get",
    "set",
    "ms",
    "mg",
];
/// `What::Passing`: not for comparisons with memcached.
const ALONE: &[&str] = &[
    "stats\r\n",
    "stats items\r\n",
    "stats slabs\r\n",
    "stats settings\r\n",
    "stats reset\r\n",
    "stats detail on\r\n",
    "stats detail dump\r\n",
    "lru_crawler metadump all\r\n",
    "lru_crawler mgdump hash\r\n",
    "watch fetchers mutations\r\n",
    "quit\r\n",
    "shutdown\r\n",
    "GET / HTTP/1.1\r\n",
    "get a b c d e f g",
];
/// Significant bytes, inserted more often than by chance. Without `What::BinaryProtocol`.
const SPECIAL: &[u8] = b"  \r\n\0\t-+09=kvbTOMqsc\xff\x7f";

/// Generator of the requests of one conversation.
pub(crate) struct Writer {
    prng: Prng,
    peer: Peer,
}

impl Writer {
    /// The same seed generates the same conversation.
    pub(crate) fn new(seed: u64) -> Writer {
        Writer::toward(Peer(FOLLOWED), seed)
    }

    /// Generates only requests that `peer` answers as Evenkeel does.
    #[allow(dead_code, reason = "not every test compares with a memcached")]
    pub(crate) fn toward(peer: Peer, seed: u64) -> Writer {
        Writer { prng: Prng::new(seed), peer }
    }

    /// `count` requests; damage may have made two of one, or none.
    pub(crate) fn requests(&mut self, count: usize) -> Vec<Vec<u8>> {
        (0..count)
            .map(|_| {
                let request = self.request();
                if self.one_in(8) { self.damage(request) } else { request }
            })
            .collect()
    }

    /// `count` requests, most of them damaged.
    pub(crate) fn damaged(&mut self, count: usize) -> Vec<Vec<u8>> {
        (0..count)
            .map(|_| {
                let request = if self.one_in(6) { self.pick(ALONE).into() } else { self.request() };
                self.damage(request)
            })
            .collect()
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.prng.below(bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn number(&mut self) -> &'static str {
        let odd = self.one_in(12) && self.peer.agrees_on(What::OddNumber);
        self.pick(if odd { ODD_NUMBERS } else { NUMBERS })
    }

    /// A CAS unique above all that servers issue, so that it has the same meaning on every server.
    fn cas(&mut self) -> String {
        (18_000_000_000_000_000_000 + self.below(3) as u64).to_string()
    }

    fn exptime(&mut self) -> &'static str {
        let all = self.peer.agrees_on(What::LargeTime);
        self.pick(if all { EXPTIMES } else { SMALL_EXPTIMES })
    }

    fn noreply(&mut self) -> &'static str {
        if self.one_in(6) { " noreply" } else { "" }
    }

    fn request(&mut self) -> Vec<u8> {
        // Against `What::Unsettled`.
        const SETTLED: &str = "mn\r\n";
        match self.below(20) {
            0..=3 => self.get(),
            4..=6 => self.classic_store(),
            7..=9 => self.meta_get(),
            10..=12 => self.meta_store(),
            13 => self.meta_delete(),
            14 | 15 => [SETTLED.as_bytes(), &self.meta_arithmetic()].concat(),
            16 => {
                let (key, noreply) = (self.pick(KEYS), self.noreply());
                format!("delete {key}{noreply}\r\n").into()
            }
            17 => {
                let (command, key) = (self.pick(&["incr", "decr"]), self.pick(KEYS));
                let (delta, noreply) = (self.number(), self.noreply());
                format!("{SETTLED}{command} {key} {delta}{noreply}\r\n").into()
            }
            18 => {
                let (key, exptime, noreply) = (self.pick(KEYS), self.exptime(), self.noreply());
                format!("touch {key} {exptime}{noreply}\r\n").into()
            }
            _ => match self.pick(ADMIN) {
                "me Zm9v b" if !self.peer.agrees_on(What::Base64Facts) => b"me a\r\n".into(),
                line => format!("{line}\r\n").into(),
            },
        }
    }

    fn get(&mut self) -> Vec<u8> {
        let command = self.pick(&["get", "get", "gets", "gat", "gats"]);
        let mut line = command.to_owned();
        if command.starts_with("gat") {
            line = format!("{line} {}", self.exptime());
        }
        for _ in 0..=self.below(5) {
            line = format!("{line} {}", self.pick(KEYS));
        }
        (line + if self.one_in(10) { "\n" } else { "\r\n" }).into()
    }

    fn value(&mut self) -> Vec<u8> {
        if self.one_in(10) {
            let len = LONG_VALUES[self.below(LONG_VALUES.len())];
            // Lines, so that a value that is parsed as commands has no overlong line.
            return b"a line of a value\r\n".iter().copied().cycle().take(len).collect();
        }
        self.pick(VALUES).into()
    }

    /// A line, and usually a value of the announced length with its line end.
    fn with_value(&mut self, line: impl Fn(&str) -> String) -> Vec<u8> {
        let mut value = self.value();
        let is_whole = !self.peer.agrees_on(What::RefusedStore);
        let len = match self.below(30) {
            _ if is_whole => value.len().to_string(),
            0 => self.number().to_owned(),
            1 => (value.len() + 1).to_string(),
            2 => value.len().saturating_sub(1).to_string(),
            _ => value.len().to_string(),
        };
        let mut request = line(&len).into_bytes();
        request.append(&mut value);
        request.extend_from_slice(if !is_whole && self.one_in(30) { b"\n" } else { b"\r\n" });
        request
    }

    fn classic_store(&mut self) -> Vec<u8> {
        let command = self.pick(&["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
        let (key, flags, exptime) = match self.peer.agrees_on(What::RefusedStore) {
            true => (self.pick(KEYS), self.number(), self.exptime()),
            false => (self.pick(KEYS), self.pick(GOOD_FLAGS), self.pick(GOOD_EXPTIMES)),
        };
        let cas = if command == "cas" { format!(" {}", self.cas()) } else { String::new() };
        let noreply = self.noreply();
        self.with_value(|len| format!("{command} {key} {flags} {exptime} {len}{cas}{noreply}\r\n"))
    }

    fn meta_key(&mut self, binary: &[&str]) -> String {
        if self.one_in(4) { format!("{} b", self.pick(binary)) } else { self.pick(KEYS).to_owned() }
    }

    /// Some of these flags, in any order, possibly repeated.
    fn flags(&mut self, letters: &[&str]) -> String {
        let is_unknown = |letter: &&str| *letter == "E" && !self.peer.agrees_on(What::SetCas);
        let letters: Vec<&str> = letters.iter().copied().filter(|letter| !is_unknown(letter)).collect();
        let mut flags = String::new();
        for _ in 0..self.below(6) {
            let flag = match self.pick(&letters) {
                // Without `What::PastTime` and `What::LateOpaque`.
                "NA" => format!("N{}", self.pick(&["0", "100", "x"])),
                "TA" => format!("T{}", self.pick(&["0", "100", "x"])),
                "OA" => "Oopaque".to_owned(),
                "T" => format!("T{}", self.exptime()),
                "N" => format!("N{}", self.exptime()),
                "R" => format!("R{}", self.pick(&["30", "0", "-1", "200", "x"])),
                "O" => format!(
                    "O{}",
                    self.pick(&[
                        "opaque",
                        "1",
                        "0123456789012345678901234567890",
                        "01234567890123456789012345678901"
                    ])
                ),
                "C" => format!("C{}", self.cas()),
                "E" => format!("E{}", self.cas()),
                "F" if !self.peer.agrees_on(What::LargeFlags) => format!("F{}", self.pick(GOOD_FLAGS)),
                "F" => format!("F{}", self.number()),
                "D" => format!("D{}", self.number()),
                "J" => format!("J{}", self.number()),
                "MS" => format!("M{}", self.pick(&["S", "E", "A", "P", "R", "set", "e", "a", "x", ""])),
                "MA" => format!("M{}", self.pick(&["I", "D", "+", "-", "i", "d", "incr", "x", ""])),
                letter => letter.to_owned(),
            };
            flags = format!("{flags} {flag}");
        }
        flags
    }

    fn meta_get(&mut self) -> Vec<u8> {
        let key = self.meta_key(BINARY_KEYS);
        // Without `What::MadeInBase64`.
        let made = if key.contains(' ') { "u" } else { "N" };
        let letters = ["f", "k", "s", "h", "t", "l", "c", "q", "u", "OA", "T", "R", "E", "C", "z", "b"];
        let flags = self.flags(&[&letters[..], &["v", "v", "v", made]].concat());
        format!("mg {key}{flags}\r\n").into()
    }

    fn meta_store(&mut self) -> Vec<u8> {
        let key = self.meta_key(STORED_BINARY_KEYS);
        let mode = if key.contains(' ') { "I" } else { "MS" };
        let made = if self.peer.agrees_on(What::AppendMakes) { "N" } else { "k" };
        let length = if self.peer.agrees_on(What::StoredLength) { "s" } else { "k" };
        let flags = self.flags(&[
            "F", "T", mode, mode, "I", "C", "E", "E", made, "k", length, "c", "q", "OA", "b", "z", "f",
        ]);
        let (name, rest) =
            key.split_once(' ').map_or((key.as_str(), String::new()), |(name, b)| (name, format!(" {b}")));
        self.with_value(|len| format!("ms {name} {len}{rest}{flags}\r\n"))
    }

    fn meta_delete(&mut self) -> Vec<u8> {
        let key = self.meta_key(BINARY_KEYS);
        let drop = if self.peer.agrees_on(What::DropValue) { "x" } else { "I" };
        let flags = self.flags(&["q", "I", "T", drop, "k", "O", "C", "E", "b", "z", "F"]);
        format!("md {key}{flags}\r\n").into()
    }

    fn meta_arithmetic(&mut self) -> Vec<u8> {
        let key = self.meta_key(COUNTED_BINARY_KEYS);
        let made = if key.contains(' ') { "J" } else { "NA" };
        let quiet = if self.peer.agrees_on(What::QuietCount) { "q" } else { "k" };
        let flags =
            self.flags(&[made, "J", "D", "MA", "v", "t", "c", "k", quiet, "OA", "C", "E", "TA", "b", "z"]);
        format!("ma {key}{flags}\r\n").into()
    }

    /// Whether servers agree on this request when it is damaged.
    fn may_be_damaged(&self, request: &[u8]) -> bool {
        let line = request.strip_prefix(b"mn\r\n").unwrap_or(request);
        let has = |word: &[u8]| line.windows(word.len()).any(|window| window == word);
        let is_store = line.iter().filter(|byte| **byte == b'\n').count() > 1;
        let is_number = [&b"incr"[..], b"decr", b"touch"].iter().any(|word| line.starts_with(word));
        [
            (What::RefusedStore, is_store),
            (What::GatLine, line.starts_with(b"gat")),
            (What::DeleteWords, line.starts_with(b"delete") || line.starts_with(b"lru")),
            // The end of `mn`.
            (What::LineEnd, line.len() < request.len()),
            (What::OddNumber, is_number),
            (What::UnknownNoreply, has(b"noreply")),
        ]
        .iter()
        .all(|(what, is_so)| !is_so || self.peer.agrees_on(*what))
    }

    fn damage(&mut self, mut request: Vec<u8>) -> Vec<u8> {
        if !self.may_be_damaged(&request) {
            return request;
        }
        let end = match self.peer.agrees_on(What::LineEnd) {
            true => Vec::new(),
            false => request.split_off(
                request.len() - request.iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count(),
            ),
        };
        for _ in 0..=self.below(2) {
            // Mostly in the line: a damaged value is just another value.
            let at = self.below(request.len().clamp(1, 80));
            let byte = match SPECIAL[self.below(SPECIAL.len())] {
                0 | b'\r' | b'\n' if !self.peer.agrees_on(What::Space) => b'x',
                b' ' | b'\t' if at == 0 && !self.peer.agrees_on(What::Space) => b'x',
                byte => byte,
            };
            match self.below(4) {
                0 if at < request.len() => drop(request.remove(at)),
                1 if at < request.len() => request[at] = byte,
                2 => request.truncate(at.max(1)),
                _ => request.insert(at.min(request.len()), byte),
            }
        }
        request.extend(end);
        request
    }
}
