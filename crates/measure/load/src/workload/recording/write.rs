//! Notes become a trace: merged by time, a line for each.

use super::Note;
use crate::types::mix::Command;
use crate::workload::items::Items;
use protocol::number::write_u64;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};

/// Writes notes of before `until_ns`; returns how many, and how many were later.
pub(super) fn merge(notes: Vec<File>, trace: File, items: &Items, until_ns: u64) -> io::Result<(u64, u64)> {
    let mut files = Vec::new();
    let mut heads: Vec<Option<Note>> = Vec::new();
    for mut file in notes {
        file.rewind()?;
        let mut file = BufReader::new(file);
        heads.push(Note::read(&mut file)?);
        files.push(file);
    }
    let mut trace = BufWriter::new(trace);
    let (mut written, mut later) = (0, 0);
    let mut line = Vec::new();
    let next = |heads: &[Option<Note>]| {
        let heads = heads.iter().enumerate().filter_map(|(worker, head)| Some((worker, (*head)?)));
        heads.min_by_key(|(worker, note)| (note.at_ns, *worker))
    };
    while let Some((worker, note)) = next(&heads) {
        heads[worker] = Note::read(&mut files[worker])?;
        if note.at_ns >= until_ns {
            later += 1;
            continue;
        }
        line.clear();
        write_line(&note, worker, items, &mut line);
        trace.write_all(&line)?;
        written += 1;
    }
    trace.flush()?;
    Ok((written, later))
}

/// `timestamp,key,key size,value size,client id,operation,TTL`, with the worker as the client. Gets have the size of
/// the item's value, too: simulators of caches use it. Only commands that set a time to live have one.
fn write_line(note: &Note, worker: usize, items: &Items, out: &mut Vec<u8>) {
    let Note { at_ns, command, item } = *note;
    write_u64(out, at_ns / 1_000_000_000);
    out.push(b'.');
    // Nine digits, leading zeros included.
    let fraction = out.len();
    write_u64(out, 1_000_000_000 + at_ns % 1_000_000_000);
    out.remove(fraction);
    out.push(b',');
    let start = out.len();
    match command.counts() {
        true => items.keys.write_counter(item, out),
        false => items.keys.write(item, out),
    }
    let key_len = out.len() - start;
    let value_len = if command.is_store() || command.is_get() { items.values.size(item) } else { 0 };
    for number in [key_len as u64, value_len as u64, worker as u64] {
        out.push(b',');
        write_u64(out, number);
    }
    out.push(b',');
    out.extend_from_slice(command.name().as_bytes());
    out.push(b',');
    let has_ttl = command.is_store() || command == Command::Touch;
    write_u64(out, if has_ttl { items.ttl_seconds(item) } else { 0 });
    out.push(b'\n');
}
