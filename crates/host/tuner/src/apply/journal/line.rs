//! Lines of a journal: a record each, with its checksum, and what can be read of a damaged file.
//!
//! A line is the record's JSON object with one more member at its end, the CRC-32 (as of gzip) of the object without
//! it: `{"record":"applied","crc32":"77a5b375"}`. A line counts if its checksum is right and it is about a setting of
//! ours, whatever is before and after it.

use serde_json::Value;

use super::record::{JournalRecord, VERSION};

/// The beginning of a record. Within a string, JSON has a backslash before each quote, so it is nowhere else.
const START: &[u8] = b"{\"record\":\"";

/// What comes before the checksum; for the same reason it is in one place only.
const SUM: &[u8] = b",\"crc32\":\"";

/// The length of the checksum in hexadecimal digits.
const SUM_LEN: usize = 8;

/// What comes after it.
const END: &[u8] = b"\"}";

/// What is in a file.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The records, without repeated beginnings.
    pub(super) records: Vec<JournalRecord>,
    /// The numbers of lines, from 1, that cannot be read or have something else in them.
    pub(super) unread: Vec<usize>,
    /// The length of the file without a line at its end that was cut off while it was written.
    pub(super) whole: usize,
    /// Whether the last of these bytes ends a line.
    pub(super) is_ended: bool,
}

/// What another version's first line says.
pub(super) struct OtherVersion {
    pub(super) version: u64,
    pub(super) boot_id: Option<String>,
}

/// The text of records.
pub(super) fn lines(records: &[JournalRecord]) -> String {
    records.iter().map(line).collect()
}

fn line(record: &JournalRecord) -> String {
    let text = serde_json::to_string(record).expect("records are plain data");
    let open = text.strip_suffix('}').expect("records are objects");
    format!("{open},\"crc32\":\"{:08x}\"}}\n", crc32(text.as_bytes()))
}

impl Lines {
    /// Everything that can be read.
    pub(super) fn read(text: &[u8]) -> Lines {
        let mut read = Lines { whole: text.len(), is_ended: true, ..Lines::default() };
        for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let ended = line.strip_suffix(b"\n");
            let (found, mut is_whole) = records(ended.unwrap_or(line));
            if ended.is_none() && found.is_empty() && is_torn(line) {
                read.whole -= line.len();
                return read;
            }
            read.is_ended = ended.is_some();
            for record in found {
                is_whole &= read.add(record);
            }
            if !is_whole {
                read.unread.push(index + 1);
            }
        }
        read
    }

    /// Adds a record, unless it is not ours or contradicts another one.
    fn add(&mut self, record: JournalRecord) -> bool {
        if !matches!(record, JournalRecord::Begin { .. }) {
            let is_ours = record.is_about_ours();
            self.records.extend(is_ours.then_some(record));
            return is_ours;
        }
        match self.records.iter().find(|record| matches!(record, JournalRecord::Begin { .. })) {
            Some(other) => *other == record,
            None => {
                self.records.push(record);
                true
            }
        }
    }
}

/// Another version, if a file is of one, as its first line says unless that is damaged.
pub(super) fn other_version(text: &[u8]) -> Option<OtherVersion> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    let object: Value = match checked(line) {
        Some((object, _)) => serde_json::from_slice(&object).ok()?,
        None if find(line, SUM).is_some() => return None,
        None => serde_json::from_slice(line).ok()?,
    };
    let version = object.get("version")?.as_u64().filter(|version| *version != u64::from(VERSION))?;
    let boot_id = object.pointer("/place/boot_id").and_then(Value::as_str).map(str::to_owned);
    (object.get("record")? == "begin").then_some(OtherVersion { version, boot_id })
}

/// The records in a line, and whether nothing else is in it. There are several where an end of line is damaged.
fn records(line: &[u8]) -> (Vec<JournalRecord>, bool) {
    let first = find(line, START).unwrap_or(line.len());
    let (mut found, mut is_whole, mut left) = (Vec::new(), first == 0, &line[first..]);
    while !left.is_empty() {
        let len = find(&left[1..], START).map_or(left.len(), |next| next + 1);
        let (one, rest) = left.split_at(len);
        let record =
            checked(one).and_then(|(object, len)| Some((serde_json::from_slice(&object).ok()?, len)));
        is_whole &= record.as_ref().is_some_and(|(_, len)| *len == one.len());
        found.extend(record.map(|(record, _)| record));
        left = rest;
    }
    (found, is_whole)
}

/// The object that a text begins with, if its checksum is right, and its length in the text.
fn checked(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (open, rest) = text.split_at(find(text, SUM)?);
    let (sum, rest) = rest[SUM.len()..].split_at_checked(SUM_LEN)?;
    let object = [open, b"}"].concat();
    let is_right = rest.starts_with(END) && sum == format!("{:08x}", crc32(&object)).as_bytes();
    is_right.then_some((object, sum_end(open.len())))
}

/// The end of a record whose checksum's member begins there.
fn sum_end(at: usize) -> usize {
    at + SUM.len() + SUM_LEN + END.len()
}

/// Whether a line without an end is the first part of one, which a process leaves that was killed while it wrote. It
/// was never acted upon.
fn is_torn(line: &[u8]) -> bool {
    let start = line.len().min(START.len());
    let is_text = std::str::from_utf8(line).map_or_else(|error| error.error_len().is_none(), |_| true);
    let is_complete = find(line, SUM).is_some_and(|at| line.len() >= sum_end(at));
    line[..start] == START[..start] && is_text && !line.iter().any(u8::is_ascii_control) && !is_complete
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.iter().position(|byte| *byte == wanted[0])?;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Any change of up to 32 bits in a row is seen, any other one but for one in four billion.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| (sum >> 8) ^ REMAINDERS[((sum ^ u32::from(*byte)) & 0xff) as usize])
}

/// For each byte.
const REMAINDERS: [u32; 256] = {
    let (mut all, mut byte) = ([0; 256], 0);
    while byte < all.len() {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = (sum >> 1) ^ (0xedb8_8320 * (sum & 1));
            bit += 1;
        }
        all[byte] = sum;
        byte += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: JournalRecord = JournalRecord::Done { step: 3 };

    /// A file with this text has so many records and these unread lines, and is whole up to there.
    #[track_caller]
    fn check(text: &[u8], records: usize, unread: &[usize], whole: usize) {
        let read = Lines::read(text);
        let found = (read.records.len(), read.unread.as_slice(), read.whole);
        assert_eq!(found, (records, unread, whole), "{}", String::from_utf8_lossy(text));
    }

    #[test]
    fn the_checksum_is_that_of_gzip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn a_line_counts_whatever_is_before_and_after_it() {
        let line = lines(&[DONE]);
        let (line, len) = (line.as_bytes(), line.len());
        check(line, 1, &[], len);
        for junk in [&b"\0\0\0\n"[..], b"\xff\xfe\n", b"{}\n", b"{\"record\":\"done\",\"step\":3}\n", b"x\n"]
        {
            check(&[junk, line].concat(), 1, &[1], junk.len() + len);
            check(&[line, junk, line].concat(), 2, &[2], junk.len() + 2 * len);
        }
        // A record that this version does not know.
        let unknown = b"{\"record\":\"unknown\"}";
        let unknown = format!("{{\"record\":\"unknown\",\"crc32\":\"{:08x}\"}}\n", crc32(unknown));
        check(&[unknown.as_bytes(), line].concat(), 1, &[1], unknown.len() + len);
        check(&[line, b"\n\n", line].concat(), 2, &[], 2 * len + 2);
        let long = [vec![b'a'; 3 << 20], b"\n".to_vec(), line.to_vec()].concat();
        check(&long, 1, &[1], long.len());
    }

    #[test]
    fn records_are_found_although_the_end_of_a_line_is_damaged() {
        let line = lines(&[DONE]);
        let open = line.trim_end().as_bytes();
        check(&[open, b"\x0b", line.as_bytes()].concat(), 2, &[1], 2 * line.len());
        check(&[open, line.as_bytes()].concat(), 2, &[], 2 * line.len() - 1);
        check(&[open, b"\x0b"].concat(), 1, &[1], line.len());
        check(open, 1, &[], open.len());
        assert!(!Lines::read(open).is_ended && Lines::read(line.as_bytes()).is_ended);
    }

    #[test]
    fn only_the_first_part_of_a_line_at_the_end_was_never_acted_upon() {
        let record = JournalRecord::RollingBack { why: "größer".into() };
        let line = lines(&[record]);
        for len in 1..line.len() - 1 {
            check(&line.as_bytes()[..len], 0, &[], 0);
        }
        for damaged in [&b"\0\0\0"[..], b"\xff", b"x", b"{\"record\":\"\0"] {
            check(damaged, 0, &[1], damaged.len());
        }
        let damaged = line.trim_end().replace("rolling", "r0lling");
        check(damaged.as_bytes(), 0, &[1], damaged.len());
    }

    #[test]
    fn every_bit_is_covered_by_the_checksum() {
        let line = lines(&[DONE]).into_bytes();
        for (index, bit) in (0..line.len()).flat_map(|index| (0..8).map(move |bit| (index, bit))) {
            let mut damaged = line.clone();
            damaged[index] ^= 1 << bit;
            let read = Lines::read(&[&damaged[..], &line].concat());
            assert!(
                !read.unread.is_empty() && read.records.iter().all(|record| *record == DONE),
                "{index} {bit}"
            );
        }
    }

    #[test]
    fn another_version_is_known_by_its_first_line_unless_that_is_damaged() {
        let version = |text: &str| {
            other_version(text.as_bytes()).map(|other| (other.version, other.boot_id.unwrap_or_default()))
        };
        let first = "{\"record\":\"begin\",\"version\":1,\"place\":{\"boot_id\":\"b\"}}";
        assert_eq!(version(&format!("{first}\n{{}}\n")), Some((1, "b".to_owned())));
        assert_eq!(version("{\"record\":\"begin\",\"version\":3}"), Some((3, String::new())));
        assert_eq!(version(&first.replace(":1", ":2")), None);
        assert_eq!(version("{\"record\":\"done\",\"version\":1}"), None);
        let sum = |text: &str| {
            format!("{},\"crc32\":\"{:08x}\"}}", &text[..text.len() - 1], crc32(text.as_bytes()))
        };
        assert_eq!(version(&sum(first)), Some((1, "b".to_owned())));
        let ours = sum(&first.replace(":1", ":2"));
        assert_eq!((version(&ours), version(&ours.replace(":2", ":3"))), (None, None));
    }
}
