//! Packets of the binary protocol for tests: requests written, replies read, random conversations.

use stdx::prng::Prng;

pub(crate) const GET: u8 = 0x00;
pub(crate) const SET: u8 = 0x01;
pub(crate) const ADD: u8 = 0x02;
pub(crate) const REPLACE: u8 = 0x03;
pub(crate) const DELETE: u8 = 0x04;
pub(crate) const INCREMENT: u8 = 0x05;
pub(crate) const DECREMENT: u8 = 0x06;
pub(crate) const QUIT: u8 = 0x07;
pub(crate) const FLUSH: u8 = 0x08;
pub(crate) const GETQ: u8 = 0x09;
pub(crate) const NOOP: u8 = 0x0a;
pub(crate) const VERSION: u8 = 0x0b;
pub(crate) const GETK: u8 = 0x0c;
pub(crate) const GETKQ: u8 = 0x0d;
pub(crate) const APPEND: u8 = 0x0e;
pub(crate) const PREPEND: u8 = 0x0f;
pub(crate) const STAT: u8 = 0x10;
pub(crate) const SETQ: u8 = 0x11;
pub(crate) const DELETEQ: u8 = 0x14;
pub(crate) const QUITQ: u8 = 0x17;
pub(crate) const TOUCH: u8 = 0x1c;
pub(crate) const GAT: u8 = 0x1d;
pub(crate) const SASL_LIST: u8 = 0x20;
pub(crate) const SASL_AUTH: u8 = 0x21;
pub(crate) const SASL_STEP: u8 = 0x22;
pub(crate) const GATKQ: u8 = 0x24;

/// What tests put into a request that replies must repeat.
const OPAQUE: u32 = 0xdead_beef;

pub(crate) const HEADER_LEN: usize = 24;

/// A request.
pub(crate) fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    with_cas(opcode, extras, key, value, 0)
}

/// A request with a CAS unique.
pub(crate) fn with_cas(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = header(opcode, key.len() as u16, extras.len() as u8, body, cas);
    bytes.extend([extras, key, value].concat());
    bytes
}

/// A header with any lengths.
pub(crate) fn header(opcode: u8, key: u16, extras: u8, body: u32, cas: u64) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode];
    bytes.extend(key.to_be_bytes());
    bytes.extend([extras, 0, 0, 0]);
    bytes.extend(body.to_be_bytes());
    bytes.extend(OPAQUE.to_be_bytes());
    bytes.extend(cas.to_be_bytes());
    bytes
}

/// Extras of a storage command.
pub(crate) fn stored(flags: u32, exptime: u32) -> Vec<u8> {
    [flags.to_be_bytes(), exptime.to_be_bytes()].concat()
}

/// Extras of an increment or decrement.
pub(crate) fn counted(delta: u64, initial: u64, exptime: u32) -> Vec<u8> {
    [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()].concat()
}

pub(crate) fn set(key: &str, value: &[u8]) -> Vec<u8> {
    packet(SET, &stored(0, 0), key.as_bytes(), value)
}

pub(crate) fn get(key: &str) -> Vec<u8> {
    packet(GET, b"", key.as_bytes(), b"")
}

/// One reply, taken apart.
pub(crate) struct Reply<'a> {
    pub(crate) opcode: u8,
    pub(crate) status: u16,
    pub(crate) extras: &'a [u8],
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) opaque: u32,
    pub(crate) cas: u64,
}

/// The first reply, and what follows it; `None` if it is not complete.
pub(crate) fn read(output: &[u8]) -> Option<(Reply<'_>, &[u8])> {
    let (header, rest) = output.split_first_chunk::<HEADER_LEN>()?;
    assert_eq!(header[0], 0x81, "the first byte of a reply: {}", output.escape_ascii());
    let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let u32_at = |at: usize| u32::from_be_bytes(*header[at..].first_chunk().expect("it is long enough"));
    let (body, rest) = rest.split_at_checked(u32_at(8) as usize)?;
    let (extras, body) = body.split_at(usize::from(header[4]));
    let (key, value) = body.split_at(usize::from(u16_at(2)));
    let cas = u64::from_be_bytes(*header[16..].first_chunk().expect("it is long enough"));
    let reply = Reply { opcode: header[1], status: u16_at(6), extras, key, value, opaque: u32_at(12), cas };
    Some((reply, rest))
}

/// Replies in words, a line for each: opcode and status, then what it has of extras, key, value and CAS unique.
pub(crate) fn show(mut output: &[u8]) -> String {
    let mut lines = Vec::new();
    while let Some((reply, rest)) = read(output) {
        let mut line = format!("{:02x} {:02x}", reply.opcode, reply.status);
        if !reply.extras.is_empty() {
            line +=
                &format!(" {}", reply.extras.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
        if !reply.key.is_empty() {
            line += &format!(" key={}", reply.key.escape_ascii());
        }
        if !reply.value.is_empty() {
            line += &format!(" {}", reply.value.escape_ascii());
        }
        if reply.cas != 0 {
            line += " cas";
        }
        if reply.opaque != OPAQUE {
            line += &format!(" opaque={:08x}", reply.opaque);
        }
        lines.push(line);
        output = rest;
    }
    if !output.is_empty() {
        lines.push(format!("a part of a reply: {}", output.escape_ascii()));
    }
    lines.join("\n")
}

const KEYS: [&[u8]; 7] = [b"a", b"b", b"counter", b"foo", b"prefix:key", b"not text\r\n\0\x80", b"missing"];
/// Known and unknown ones. Without `sasl_…` and `stat`, which depend on how a server was built, and `version`.
const OPCODES: [u8; 38] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x09, 0x0a, 0x0c, 0x0d, 0x0e, 0x0f, 0x11, 0x12, 0x13, 0x14,
    0x15, 0x16, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x23, 0x24, 0x00, 0x01, 0x09, 0x0d, 0x11, 0x01, 0x00,
    0x40, 0xff, 0x08, 0x18,
];
const VALUES: [&[u8]; 8] =
    [b"", b"0", b"5", b"99", b"18446744073709551615", b"hello", b"two\r\nlines", b"\x80\x00"];
/// Around the limits where Evenkeel uses another kind of memory, and where memcached chains chunks or refuses.
const LONG_VALUES: [usize; 8] = [100, 2000, 16_384, 32_767, 32_768, 70_000, 600_000, 1_100_000];
const EXPTIMES: [u32; 5] = [0, 0, 100, 2_592_000, 2_000_000_000];
const NUMBERS: [u64; 5] = [0, 1, 5, 10, u64::MAX];

/// Generator of the requests of one conversation.
pub(crate) struct PacketWriter {
    prng: Prng,
}

impl PacketWriter {
    /// The same seed generates the same conversation.
    pub(crate) fn new(seed: u64) -> PacketWriter {
        PacketWriter { prng: Prng::new(seed) }
    }

    /// `count` requests, and after every other conversation one with a wrong length, which ends it.
    pub(crate) fn requests(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut requests: Vec<Vec<u8>> = (0..count).map(|_| self.request()).collect();
        if self.below(2) == 0 {
            requests.push(self.refused());
        }
        requests
    }

    fn below(&mut self, bound: usize) -> usize {
        self.prng.below(bound as u64) as usize
    }

    fn value(&mut self) -> Vec<u8> {
        if self.below(12) > 0 {
            return VALUES[self.below(VALUES.len())].into();
        }
        let len = LONG_VALUES[self.below(LONG_VALUES.len())];
        b"no number 0123456789\r\n".iter().copied().cycle().take(len).collect()
    }

    fn request(&mut self) -> Vec<u8> {
        let opcode = OPCODES[self.below(OPCODES.len())];
        let key = match self.below(30) {
            0 => vec![b'k'; 250],
            _ => KEYS[self.below(KEYS.len())].into(),
        };
        let exptime = EXPTIMES[self.below(EXPTIMES.len())];
        // A CAS unique above all that servers issue, so that it has the same meaning on every server.
        let cas = if self.below(8) == 0 { 18_000_000_000_000_000_000 } else { 0 };
        let number = NUMBERS[self.below(NUMBERS.len())];
        let (extras, key, value) = match opcode {
            0x01..=0x03 | 0x11..=0x13 => (stored(number as u32, exptime), key, self.value()),
            0x0e | 0x0f | 0x19 | 0x1a => (Vec::new(), key, self.value()),
            0x05 | 0x06 | 0x15 | 0x16 => {
                let exptime = if self.below(3) == 0 { u32::MAX } else { exptime };
                (counted(number, 7, exptime), key, Vec::new())
            }
            0x1c..=0x1e | 0x23 | 0x24 => (exptime.to_be_bytes().into(), key, Vec::new()),
            0x0a => (Vec::new(), Vec::new(), Vec::new()),
            0x08 | 0x18 => (vec![0; 4 * self.below(2)], Vec::new(), Vec::new()),
            // Without extras and key, of which memcached drops as many bytes once more.
            0x1b | 0x40.. => (Vec::new(), Vec::new(), self.value()),
            _ => (Vec::new(), key, Vec::new()),
        };
        let mut request = with_cas(opcode, &extras, &key, &value, cas);
        request[5] = self.below(2) as u8;
        request[7] = self.below(256) as u8;
        request[12] = self.below(256) as u8;
        // memcached counts in place unless the item is on its way to a client: `noop` waits for that.
        if matches!(opcode, 0x05 | 0x06 | 0x15 | 0x16) {
            request.splice(0..0, packet(NOOP, b"", b"", b""));
        }
        request
    }

    /// A request with a wrong length, which is refused when its head has arrived.
    ///
    /// Nothing is left unread then: otherwise the kernel could drop replies that it has not sent yet.
    fn refused(&mut self) -> Vec<u8> {
        let opcode = OPCODES[self.below(OPCODES.len())];
        let mut request = packet(opcode, b"", b"key", b"");
        match self.below(3) {
            // A key that is too long.
            0 => {
                request = packet(opcode, b"", &[b'k'; 300], b"");
            }
            // Extras that suit no opcode.
            1 if !matches!(opcode, 0x1b | 0x40..) => request = packet(opcode, b"odd", b"key", b""),
            // A body that is shorter than the key.
            _ => request[11] = 2,
        }
        request
    }
}
