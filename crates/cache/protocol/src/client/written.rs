//! Reply lines, written: to the wire, for a proxy that changes a reply, and as text for people.

use std::fmt::{self, Display, Formatter};

use super::line::{Line, Value};
use super::returned::ReturnFlags;
use crate::limits::FOUND_SHOWN_MAX;
use crate::number::write_u64;

impl Line<'_> {
    /// Appends the line and its line end. Parsing it gives the same line, unless the line was received without a
    /// carriage return and had the maximum length.
    pub fn write(&self, out: &mut Vec<u8>) {
        let words = |out: &mut Vec<u8>, words: &[&[u8]]| {
            words.iter().for_each(|word| out.extend_from_slice(word));
        };
        match *self {
            Line::Value(Value { key, flags, len, cas }) => {
                words(out, &[b"VALUE ", key, b" "]);
                write_u64(out, flags);
                out.push(b' ');
                write_u64(out, len as u64);
                if let Some(cas) = cas {
                    out.push(b' ');
                    write_u64(out, cas);
                }
            }
            Line::MetaValue { len, flags } => {
                out.extend_from_slice(b"VA ");
                write_u64(out, len as u64);
                write_flags(out, flags);
            }
            Line::Header(flags) => returning(out, b"HD", flags),
            Line::Miss(flags) => returning(out, b"EN", flags),
            Line::MetaNotStored(flags) => returning(out, b"NS", flags),
            Line::MetaExists(flags) => returning(out, b"EX", flags),
            Line::MetaNotFound(flags) => returning(out, b"NF", flags),
            Line::End => out.extend_from_slice(b"END"),
            Line::Stored => out.extend_from_slice(b"STORED"),
            Line::NotStored => out.extend_from_slice(b"NOT_STORED"),
            Line::Exists => out.extend_from_slice(b"EXISTS"),
            Line::NotFound => out.extend_from_slice(b"NOT_FOUND"),
            Line::Deleted => out.extend_from_slice(b"DELETED"),
            Line::Touched => out.extend_from_slice(b"TOUCHED"),
            Line::Ok => out.extend_from_slice(b"OK"),
            Line::Reset => out.extend_from_slice(b"RESET"),
            Line::Number(number) => write_u64(out, number),
            Line::Version(version) => words(out, &[b"VERSION ", version]),
            Line::Stat { name, value } => words(out, &[b"STAT ", name, b" ", value]),
            Line::Noop => out.extend_from_slice(b"MN"),
            Line::Debug { key, facts } => words(out, &[b"ME ", key, b" ", facts]),
            Line::Busy(text) => words(out, &[b"BUSY ", text]),
            Line::Error { line, .. } | Line::Unknown(line) => out.extend_from_slice(line),
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// In quotes, escaped, and only the beginning of a long one.
impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut line = Vec::new();
        self.write(&mut line);
        let text = line.strip_suffix(b"\r\n").unwrap_or(&line);
        write!(f, "\"{}\"", text[..text.len().min(FOUND_SHOWN_MAX)].escape_ascii())
    }
}

fn returning(out: &mut Vec<u8>, code: &[u8; 2], flags: ReturnFlags<'_>) {
    out.extend_from_slice(code);
    write_flags(out, flags);
}

fn write_flags(out: &mut Vec<u8>, flags: ReturnFlags<'_>) {
    if !flags.as_written().is_empty() {
        out.push(b' ');
        out.extend_from_slice(flags.as_written());
    }
}
