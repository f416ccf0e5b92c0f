//! Replies about single items, for operators: `me`, `lru_crawler metadump` and `mgdump`, `stats cachedump`.

use crate::base64;
use crate::number::{write_i64, write_u64};
use crate::uri;

use super::ReplyKey;

/// The facts about an item in a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpFacts {
    /// When it expires; `None` is never. `me`: seconds from now. `metadump`: Unix time.
    pub expiry: Option<i64>,
    /// The last access. `me`: seconds ago. `metadump`: Unix time.
    pub last_access: u64,
    /// The CAS.
    pub cas: u64,
    /// Whether it was ever fetched.
    pub fetched: bool,
    /// The slab class.
    pub class: u32,
    /// All bytes that the item occupies.
    pub size: u64,
    /// The client's flags (`metadump` only).
    pub flags: u32,
    /// The page of an item on flash, and where in it the item begins (`metadump` only).
    pub on_flash: Option<(u32, u64)>,
}

/// `ME <key> exp=… la=… cas=… fetch=… cls=… size=…`, with the key in base64 if it was received in base64, otherwise
/// encoded by [`uri::encode_unreadable`].
pub fn debug_line(out: &mut Vec<u8>, key: ReplyKey<'_>, facts: &DumpFacts) {
    out.extend_from_slice(b"ME ");
    if key.binary {
        base64::encode(out, key.bytes);
    } else {
        uri::encode_unreadable(out, key.bytes);
    }
    write_facts(out, facts);
    out.extend_from_slice(b"\r\n");
}

/// `key=<percent-encoded> exp=… la=… cas=… fetch=… cls=… size=… flags=… `, and for an item on flash `ext_page=… ext_offset=… `: ends with a space
/// and a line feed.
pub fn metadump_line(out: &mut Vec<u8>, key: &[u8], facts: &DumpFacts) {
    out.extend_from_slice(b"key=");
    uri::encode(out, key);
    write_facts(out, facts);
    out.extend_from_slice(b" flags=");
    write_u64(out, u64::from(facts.flags));
    if let Some((page, offset)) = facts.on_flash {
        out.extend_from_slice(b" ext_page=");
        write_u64(out, u64::from(page));
        out.extend_from_slice(b" ext_offset=");
        write_u64(out, offset);
    }
    out.extend_from_slice(b" \n");
}

/// `mg <key>`, or `mg <base64> b`: a request that asks for the item. A key that is not [readable](uri::is_readable) is
/// always written in base64.
pub fn mgdump_line(out: &mut Vec<u8>, key: ReplyKey<'_>) {
    out.extend_from_slice(b"mg ");
    if key.binary || !uri::is_readable(key.bytes) {
        base64::encode(out, key.bytes);
        out.extend_from_slice(b" b\r\n");
    } else {
        out.extend_from_slice(key.bytes);
        out.extend_from_slice(b"\r\n");
    }
}

/// `ITEM <key> [<len> b; <expiry> s]`, with the expiry as Unix time, 0 for never, and the key encoded by
/// [`uri::encode_unreadable`].
pub fn cachedump_line(out: &mut Vec<u8>, key: &[u8], len: usize, expiry: u64) {
    out.extend_from_slice(b"ITEM ");
    uri::encode_unreadable(out, key);
    out.extend_from_slice(b" [");
    write_u64(out, len as u64);
    out.extend_from_slice(b" b; ");
    write_u64(out, expiry);
    out.extend_from_slice(b" s]\r\n");
}

fn write_facts(out: &mut Vec<u8>, facts: &DumpFacts) {
    out.extend_from_slice(b" exp=");
    write_i64(out, facts.expiry.unwrap_or(-1));
    out.extend_from_slice(b" la=");
    write_u64(out, facts.last_access);
    out.extend_from_slice(b" cas=");
    write_u64(out, facts.cas);
    out.extend_from_slice(if facts.fetched { b" fetch=yes cls=" } else { b" fetch=no cls=" });
    write_u64(out, u64::from(facts.class));
    out.extend_from_slice(b" size=");
    write_u64(out, facts.size);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: DumpFacts = DumpFacts {
        expiry: None,
        last_access: 9,
        cas: 4,
        fetched: true,
        class: 1,
        size: 65,
        flags: 3,
        on_flash: None,
    };

    #[track_caller]
    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(out.escape_ascii().to_string(), expected);
    }

    #[test]
    fn dumps_are_spelled_as_in_memcached() {
        let text = ReplyKey { bytes: b"a%b", binary: false };
        let binary = ReplyKey { bytes: b"foo", binary: true };
        let soon = DumpFacts { expiry: Some(12), fetched: false, ..FACTS };
        check(|out| debug_line(out, text, &FACTS), "ME a%b exp=-1 la=9 cas=4 fetch=yes cls=1 size=65\\r\\n");
        check(|out| debug_line(out, binary, &soon), "ME Zm9v exp=12 la=9 cas=4 fetch=no cls=1 size=65\\r\\n");
        check(
            |out| metadump_line(out, b"a%b", &FACTS),
            "key=a%25b exp=-1 la=9 cas=4 fetch=yes cls=1 size=65 flags=3 \\n",
        );
        let on_flash = DumpFacts { on_flash: Some((3, 4096)), ..FACTS };
        check(
            |out| metadump_line(out, b"k", &on_flash),
            "key=k exp=-1 la=9 cas=4 fetch=yes cls=1 size=65 flags=3 ext_page=3 ext_offset=4096 \\n",
        );
        check(|out| mgdump_line(out, text), "mg a%b\\r\\n");
        check(|out| mgdump_line(out, binary), "mg Zm9v b\\r\\n");
        check(|out| cachedump_line(out, b"k", 5, 0), "ITEM k [5 b; 0 s]\\r\\n");
    }

    #[test]
    fn no_key_ends_a_line_of_a_dump() {
        let text = |bytes| ReplyKey { bytes, binary: false };
        check(|out| mgdump_line(out, text(b"a\rEN")), "mg YQ1FTg== b\\r\\n");
        check(|out| mgdump_line(out, text("\u{e4}".as_bytes())), "mg \\xc3\\xa4\\r\\n");
        check(|out| cachedump_line(out, b"a\r\x1b[2J", 5, 0), "ITEM a%0D%1B[2J [5 b; 0 s]\\r\\n");
        check(
            |out| metadump_line(out, b"a\r\n exp=0", &FACTS),
            "key=a%0D%0A%20exp%3D0 exp=-1 la=9 cas=4 fetch=yes cls=1 size=65 flags=3 \\n",
        );
        check(
            |out| debug_line(out, text(b"a\r"), &FACTS),
            "ME a%0D exp=-1 la=9 cas=4 fetch=yes cls=1 size=65\\r\\n",
        );
    }
}
