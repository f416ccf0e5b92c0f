//! Random conversations: requests as clients write them, and requests that have been damaged.

use stdx::prng::Prng;

const KEYS: &[&str] = &["a", "b", "counter", "foo", "prefix:key", "k-1"];
const BINARY_KEYS: &[&str] = &["Zm9v", "AAEC", "YQ==", "Zm9", "Zm 9", "Y291bnRlcg=="];
const EXPTIMES: &[&str] =
    &["0", "0", "0", "100", "-1", "2592000", "2592001", "4000000000", "x", "", "99999999999"];
const NUMBERS: &[&str] =
    &["0", "1", "2", "5", "10", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616"];
const ODD_NUMBERS: &[&str] = &["x", "1x", "+5", "-5", "007", "-0", "1.5", " ", "0x10"];
/// None of only white space: memcached reads on behind it for a number.
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
/// What is not compared with memcached: it depends on time, on memory, or on who else is there.
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
/// Bytes that mean something, more often than chance would have it. Not 0x80, which to memcached is the binary
/// protocol.
const SPECIAL: &[u8] = b"  \r\n\0\t-+09=kvbTOMqsc\xff\x7f";

/// The random numbers of one conversation, and what can be made of them.
pub(crate) struct Writer {
    prng: Prng,
}

impl Writer {
    /// The same seed writes the same conversation.
    pub(crate) fn new(seed: u64) -> Writer {
        Writer { prng: Prng::new(seed) }
    }

    /// So many requests; some are two, or none, because they have been damaged.
    pub(crate) fn requests(&mut self, count: usize) -> Vec<Vec<u8>> {
        (0..count)
            .map(|_| {
                let request = self.request();
                if self.one_in(8) { self.damage(request) } else { request }
            })
            .collect()
    }

    /// So many requests of which hardly one is as a client would write it.
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
        let odd = self.one_in(12);
        self.pick(if odd { ODD_NUMBERS } else { NUMBERS })
    }

    /// A CAS unique above all that a server hands out by itself, so that it means the same on every server.
    fn cas(&mut self) -> String {
        (18_000_000_000_000_000_000 + self.below(3) as u64).to_string()
    }

    fn noreply(&mut self) -> &'static str {
        if self.one_in(6) { " noreply" } else { "" }
    }

    fn request(&mut self) -> Vec<u8> {
        // memcached counts in place unless the item is on its way to a client: `mn` waits for that.
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
                let (key, exptime, noreply) = (self.pick(KEYS), self.pick(EXPTIMES), self.noreply());
                format!("touch {key} {exptime}{noreply}\r\n").into()
            }
            _ => format!("{}\r\n", self.pick(ADMIN)).into(),
        }
    }

    fn get(&mut self) -> Vec<u8> {
        let command = self.pick(&["get", "get", "gets", "gat", "gats"]);
        let mut line = command.to_owned();
        if command.starts_with("gat") {
            line = format!("{line} {}", self.pick(EXPTIMES));
        }
        for _ in 0..=self.below(5) {
            line = format!("{line} {}", self.pick(KEYS));
        }
        (line + if self.one_in(10) { "\n" } else { "\r\n" }).into()
    }

    fn value(&mut self) -> Vec<u8> {
        if self.one_in(10) {
            let len = LONG_VALUES[self.below(LONG_VALUES.len())];
            // Lines, so that a value that is taken for commands is not one that is too long.
            return b"a line of a value\r\n".iter().copied().cycle().take(len).collect();
        }
        self.pick(VALUES).into()
    }

    /// A line, a value of about the announced length, and its line end, mostly.
    fn with_value(&mut self, line: impl Fn(&str) -> String) -> Vec<u8> {
        let mut value = self.value();
        let len = match self.below(30) {
            0 => self.number().to_owned(),
            1 => (value.len() + 1).to_string(),
            2 => value.len().saturating_sub(1).to_string(),
            _ => value.len().to_string(),
        };
        let mut request = line(&len).into_bytes();
        request.append(&mut value);
        request.extend_from_slice(if self.one_in(30) { b"\n" } else { b"\r\n" });
        request
    }

    fn classic_store(&mut self) -> Vec<u8> {
        let command = self.pick(&["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
        let (key, flags, exptime) = (self.pick(KEYS), self.number(), self.pick(EXPTIMES));
        let cas = if command == "cas" { format!(" {}", self.cas()) } else { String::new() };
        let noreply = self.noreply();
        self.with_value(|len| format!("{command} {key} {flags} {exptime} {len}{cas}{noreply}\r\n"))
    }

    fn meta_key(&mut self) -> String {
        if self.one_in(4) { format!("{} b", self.pick(BINARY_KEYS)) } else { self.pick(KEYS).to_owned() }
    }

    /// Some of these flags, in any order, sometimes twice.
    fn flags(&mut self, letters: &[&str]) -> String {
        let mut flags = String::new();
        for _ in 0..self.below(6) {
            let flag = match self.pick(letters) {
                // What memcached does otherwise, and no client could want: it reports overlong opaques after it
                // has counted, has made an item or has found a value too large, and a count's times that have passed as negative.
                "NA" => format!("N{}", self.pick(&["0", "100", "x"])),
                "TA" => format!("T{}", self.pick(&["0", "100", "x"])),
                "OA" => "Oopaque".to_owned(),
                "T" => format!("T{}", self.pick(EXPTIMES)),
                "N" => format!("N{}", self.pick(EXPTIMES)),
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
        let key = self.meta_key();
        // An item that was made under a key in base64 is a wart of memcached: it forgets that the key was.
        let made = if key.contains(' ') { "u" } else { "N" };
        let letters = ["f", "k", "s", "h", "t", "l", "c", "q", "u", "OA", "T", "R", "E", "C", "z", "b"];
        let flags = self.flags(&[&letters[..], &["v", "v", "v", made]].concat());
        format!("mg {key}{flags}\r\n").into()
    }

    fn meta_store(&mut self) -> Vec<u8> {
        let key = self.meta_key();
        let flags = self
            .flags(&["F", "T", "MS", "MS", "I", "C", "E", "E", "N", "k", "s", "c", "q", "OA", "b", "z", "f"]);
        let (name, rest) =
            key.split_once(' ').map_or((key.as_str(), String::new()), |(name, b)| (name, format!(" {b}")));
        self.with_value(|len| format!("ms {name} {len}{rest}{flags}\r\n"))
    }

    fn meta_delete(&mut self) -> Vec<u8> {
        let key = self.meta_key();
        let flags = self.flags(&["q", "I", "T", "x", "k", "O", "C", "E", "b", "z", "F"]);
        format!("md {key}{flags}\r\n").into()
    }

    fn meta_arithmetic(&mut self) -> Vec<u8> {
        let key = self.meta_key();
        let made = if key.contains(' ') { "J" } else { "NA" };
        let flags =
            self.flags(&[made, "J", "D", "MA", "v", "t", "c", "k", "q", "OA", "C", "E", "TA", "b", "z"]);
        format!("ma {key}{flags}\r\n").into()
    }

    fn damage(&mut self, mut request: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(2) {
            // Mostly in the line: a damaged value is as good as any.
            let at = self.below(request.len().clamp(1, 80));
            let byte = SPECIAL[self.below(SPECIAL.len())];
            match self.below(4) {
                0 if at < request.len() => drop(request.remove(at)),
                1 if at < request.len() => request[at] = byte,
                2 => request.truncate(at.max(1)),
                _ => request.insert(at.min(request.len()), byte),
            }
        }
        request
    }
}
