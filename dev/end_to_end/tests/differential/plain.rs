//! Requests as clients write them. Requests that are left out are in the table `UNWRITTEN`, with reasons.

use crate::conversation::unwritten::{Peer, What};

use stdx::prng::Prng;

const KEYS: [&str; 6] = ["a", "b", "counter", "foo", "prefix:key", "k-1"];
/// Relative ones, the maximum among them, a past one, and a day of the year 2033.
const EXPTIMES: [&str; 6] = ["0", "0", "100", "-1", "2592000", "2000000000"];
const NUMBERS: [&str; 6] = ["0", "1", "5", "10", "4294967296", "18446744073709551615"];
const VALUES: [&str; 9] =
    ["", "0", "5", "99", "18446744073709551615", "hello", "two words", "line\r\nbreak", "\r\nx"];
/// Around the limits where Evenkeel uses another kind of memory, and where memcached chains chunks.
const LONG_VALUES: [usize; 9] = [100, 2000, 16_383, 16_384, 32_767, 32_768, 70_000, 600_000, 1_040_000];
/// Errors whose wording has not changed between versions.
const MISTAKES: [&str; 4] = ["bogus", "incr a x", "delete a 0", "decr missing 1"];
/// Errors whose wording depends on the version.
const WORDED: [&str; 5] = ["get", "touch a", "set a 0 0", "mg a zz", "mg a k k"];

/// This many requests that `peer` and Evenkeel answer alike.
pub(crate) fn requests(seed: u64, count: usize, peer: Peer) -> Vec<Vec<u8>> {
    let mut plain = Plain { prng: Prng::new(seed), peer };
    (0..count).map(|_| plain.request()).collect()
}

struct Plain {
    prng: Prng,
    peer: Peer,
}

impl Plain {
    fn below(&mut self, bound: usize) -> usize {
        self.prng.below(bound as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn key(&mut self) -> String {
        match self.below(25) {
            0 => "k".repeat(250),
            1 if self.peer.agrees_on(What::RefusedStore) => "k".repeat(251),
            _ => self.pick(&KEYS).to_owned(),
        }
    }

    /// A key that a `get` may have: without `What::TooLongKey`.
    fn short_key(&mut self) -> &'static str {
        self.pick(&KEYS)
    }

    fn noreply(&mut self) -> &'static str {
        self.pick(&["", "", "", "", " noreply"])
    }

    fn request(&mut self) -> Vec<u8> {
        match self.below(23) {
            0..=4 => self.get(),
            5..=9 => self.store(),
            10..=12 => self.meta_get(),
            13..=15 => self.meta_set(),
            16 => {
                let (key, noreply) = (self.key(), self.noreply());
                format!("delete {key}{noreply}\r\n").into()
            }
            // Against `What::Unsettled`.
            17 | 18 => {
                let (verb, key) =
                    (self.pick(&["incr", "decr"]), self.pick(&["counter", "counter", "a", "b"]));
                let (delta, noreply) = (self.pick(&NUMBERS), self.noreply());
                format!("mn\r\n{verb} {key} {delta}{noreply}\r\n").into()
            }
            19 => {
                let (key, exptime, noreply) = (self.key(), self.pick(&EXPTIMES), self.noreply());
                format!("touch {key} {exptime}{noreply}\r\n").into()
            }
            20 => {
                let key = self.short_key();
                let flags = self.flags(&["q", "k", "O1"]);
                format!("md {key}{flags}\r\nmn\r\n").into()
            }
            21 if self.peer.agrees_on(What::GatLine) && self.below(7) == 0 => b"gat 0\r\n".to_vec(),
            21 => match self.peer.agrees_on(What::LargeTime) && self.below(7) == 0 {
                true => b"touch a 4000000000\r\n".to_vec(),
                false => format!("{}\r\n", self.pick(&WORDED)).into(),
            },
            _ => format!("{}\r\n", self.pick(&MISTAKES)).into(),
        }
    }

    fn get(&mut self) -> Vec<u8> {
        let verb = self.pick(&["get", "get", "gets", "gat", "gats"]);
        let mut line = verb.to_owned();
        if verb.starts_with("gat") {
            line = format!("{line} {}", self.pick(&EXPTIMES));
        }
        for _ in 0..=self.below(30) {
            line = format!("{line} {}", self.short_key());
        }
        (line + self.pick(&["\r\n", "\r\n", "\n"])).into()
    }

    fn value(&mut self) -> Vec<u8> {
        if self.below(12) > 0 {
            return self.pick(&VALUES).into();
        }
        let len = LONG_VALUES[self.below(LONG_VALUES.len())];
        // Without `What::LongNumber`.
        b"some lines 0123456789\r\n".iter().copied().cycle().take(len).collect()
    }

    fn store(&mut self) -> Vec<u8> {
        let verb = self.pick(&["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
        let (key, flags, exptime) = (self.key(), self.pick(&["0", "1", "4294967295"]), self.pick(&EXPTIMES));
        let unique = if verb == "cas" { " 18000000000000000000" } else { "" };
        let (value, noreply) = (self.value(), self.noreply());
        let head = format!("{verb} {key} {flags} {exptime} {}{unique}{noreply}\r\n", value.len());
        [head.as_bytes(), &value, b"\r\n"].concat()
    }

    /// Some of these, each at most once, in any order.
    fn flags(&mut self, letters: &[&str]) -> String {
        let mut left = letters.to_vec();
        let mut flags = String::new();
        for _ in 0..self.below(letters.len() + 1) {
            flags = format!("{flags} {}", left.remove(self.below(left.len())));
        }
        flags
    }

    fn meta_get(&mut self) -> Vec<u8> {
        let key = self.short_key();
        let flags = self.flags(&["v", "f", "k", "s", "t", "c", "q", "Oopaque", "h", "l"]);
        format!("mg {key}{flags}\r\nmn\r\n").into()
    }

    fn meta_set(&mut self) -> Vec<u8> {
        let (key, value) = (self.short_key(), self.value());
        let mode = self.pick(&["", "", " MS", " ME", " MA", " MP", " MR"]);
        let flags = self.flags(&["T100", "F5", "q", "k", "O7"]);
        let head = format!("ms {key} {}{mode}{flags}\r\n", value.len());
        [head.as_bytes(), &value, b"\r\nmn\r\n"].concat()
    }
}
