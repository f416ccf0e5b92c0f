//! Servers that answer twice, too much, too early, half, for another key or with another opaque.

use stdx::prng::Prng;

/// How a server lies.
pub(super) struct Liar {
    prng: Prng,
    /// One of so many replies is a lie.
    one_of: u64,
    /// A value of an item that was asked for: with it others are answered.
    other: Vec<u8>,
}

/// A reply as it is sent.
pub(super) struct Told {
    pub(super) bytes: Vec<u8>,
    /// What the router must notice, once it has read it and later replies.
    pub(super) lie: Option<&'static str>,
    /// Nothing is answered any more.
    pub(super) ends: bool,
    pub(super) closes: bool,
}

impl Told {
    fn new(bytes: Vec<u8>, lie: Option<&'static str>) -> Told {
        Told { bytes, lie, ends: false, closes: false }
    }
}

impl Liar {
    pub(super) fn new(seed: u64, one_of: u64) -> Liar {
        Liar { prng: Prng::new(seed), one_of, other: b"VALUE other 0 6\r\nother=\r\nEND\r\n".to_vec() }
    }

    /// What is sent before there was a request.
    pub(super) fn greeting(&mut self) -> Option<&'static str> {
        match self.prng.below(20 * self.one_of) {
            0 => Some("END\r\n"),
            1 => Some("VALUE c0:1 0 6\r\nother=\r\nEND\r\n"),
            2 => Some("HD O1\r\n"),
            3 => Some("\r\n"),
            _ => None,
        }
    }

    /// What is sent in place of `reply`.
    pub(super) fn tell(&mut self, reply: Vec<u8>) -> Told {
        if self.prng.below(self.one_of) > 0 || reply.starts_with(b"VERSION") {
            if reply.starts_with(b"VALUE ") && reply.len() < 1000 && self.prng.below(4) == 0 {
                self.other.clone_from(&reply);
            }
            return Told::new(reply, None);
        }
        let has_value = reply.starts_with(b"VALUE ");
        let half = || reply[..1 + reply.len() / 2].to_vec();
        match self.prng.below(16) {
            0 => Told::new([&reply[..], &reply].concat(), Some("twice")),
            1 => Told::new([&reply[..], &self.other].concat(), Some("too much")),
            2 => Told::new([&reply[..], b"END\r\n"].concat(), Some("an END too many")),
            3 => Told::new([b"END\r\n", &reply[..]].concat(), Some("an END before")),
            4 => Told::new([&self.other, &reply[..]].concat(), Some("another's before")),
            5 => Told::new(half(), Some("half, and then others")),
            6 => Told { ends: true, ..Told::new(half(), None) },
            7 => Told { ends: true, ..Told::new(Vec::new(), None) },
            8 => Told { closes: true, ..Told::new(half(), None) },
            9 => Told { closes: true, ..Told::new(reply, None) },
            10 if has_value && reply != self.other && !self.other.is_empty() => {
                // A server may leave out the first of several keys.
                Told::new([b"VALUE nobodys 0 1\r\nx\r\n", &self.other[..]].concat(), Some("another key"))
            }
            11 if reply.windows(2).any(|pair| pair == b" O") => {
                let at = reply.windows(2).position(|pair| pair == b" O").expect("an opaque") + 2;
                Told::new([&reply[..at], b"x", &reply[at..]].concat(), Some("another opaque"))
            }
            12 if has_value || reply.starts_with(b"VA ") => match with_len(&reply, &mut self.prng) {
                Some(changed) => Told::new(changed, Some("a wrong length")),
                None => Told::new(reply, None),
            },
            13 => {
                let garbage: Vec<u8> =
                    (0..1 + self.prng.below(40)).map(|_| self.prng.below(256) as u8).collect();
                Told::new([b"?", &garbage[..], b"\r\n"].concat(), Some("garbage"))
            }
            14 => Told::new(vec![b'x'; 3000], Some("a line without an end")),
            15 => {
                let kind: &[u8] = match reply[0] {
                    b'S' => b"DELETED\r\n",
                    b'E' | b'V' | b'H' => b"TOUCHED\r\n",
                    _ => b"OK\r\n",
                };
                Told::new(kind.to_vec(), Some("another kind"))
            }
            _ => Told::new(reply, None),
        }
    }
}

/// A reply whose first value has another length than it says.
fn with_len(reply: &[u8], prng: &mut Prng) -> Option<Vec<u8>> {
    let end = reply.windows(2).position(|pair| pair == b"\r\n")?;
    let line = std::str::from_utf8(&reply[..end]).ok()?;
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let place = if words[0] == "VALUE" { 3 } else { 1 };
    let len: i64 = words[place].parse().ok()?;
    let changed = [-3, -2, -1, 1, 2, 3, 130_000_000, 1 << 31, 1 << 40][prng.below(9) as usize] + len;
    words[place] = u64::try_from(changed).ok()?.to_string();
    Some([words.join(" ").as_bytes(), &reply[end..]].concat())
}
