//! The requests of a trace in their order, for those who count them and send none.

use super::{ROUNDS_AHEAD, Reader, Trace, TraceRecord};
use crate::types::error::Error;
use crate::types::mix::Command;
use crate::types::part::Part;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;

/// A request of a trace, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Nanoseconds since the first request.
    pub at_ns: u64,
    /// Its class.
    pub class: TraceClass,
    /// The same for all requests of a key.
    pub key_hash: u64,
    /// Bytes of the key.
    pub key_len: usize,
    /// Bytes of the value; of a get, 0 if the trace does not say it.
    pub value_len: usize,
}

/// A class of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceClass {
    /// It reads.
    Get,
    /// It writes, and finds an item perhaps.
    Set,
    /// It deletes.
    Delete,
    /// It gives an item another time to live.
    Touch,
}

impl TraceClass {
    fn of(command: Command) -> TraceClass {
        match command {
            Command::Get | Command::Gets => TraceClass::Get,
            Command::Delete => TraceClass::Delete,
            Command::Touch => TraceClass::Touch,
            Command::Set
            | Command::Add
            | Command::Replace
            | Command::Append
            | Command::Prepend
            | Command::Incr
            | Command::Decr => TraceClass::Set,
        }
    }
}

/// Reads a trace to its end. `rate` is for one without times: requests per second.
///
/// # Errors
/// If the file cannot be read, or a line is in no format.
pub fn read_trace(path: &Path, rate: Option<f64>, mut each: impl FnMut(TraceRequest)) -> Result<(), Error> {
    let (sender, receiver) = sync_channel(ROUNDS_AHEAD);
    let trace = Trace { path: path.to_path_buf(), speed: 1.0, rate };
    let mut reader = Reader::open(&trace, Part::WHOLE, vec![sender])?;
    thread::scope(|scope| {
        let reading = scope.spawn(move || reader.run());
        receiver.iter().flatten().for_each(|record: TraceRecord| {
            each(TraceRequest {
                at_ns: record.at_ns,
                class: TraceClass::of(record.command),
                key_hash: record.hash(),
                key_len: record.key.len(),
                value_len: record.value_len,
            });
        });
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_in_order_with_their_classes() {
        let path = std::env::temp_dir().join(format!("evenkeel-each-{}", std::process::id()));
        std::fs::write(
            &path,
            "100,a,1,0,7,get,0\n100,b,1,30,8,set,60\n102,a,1,0,7,delete,0\n103,a,1,0,7,incr,0\n",
        )
        .expect("a file");
        let mut found = Vec::new();
        read_trace(&path, None, |request| found.push(request)).expect("a trace");
        let shown: Vec<_> =
            found.iter().map(|it| (it.at_ns / 1_000_000, it.class, it.key_len, it.value_len)).collect();
        assert_eq!(
            shown,
            [
                (0, TraceClass::Get, 1, 0),
                (500, TraceClass::Set, 1, 30),
                (2_000, TraceClass::Delete, 1, 0),
                (3_000, TraceClass::Set, 1, 0)
            ]
        );
        assert_eq!(found[0].key_hash, found[2].key_hash);
        assert_ne!(found[0].key_hash, found[1].key_hash);
        std::fs::write(&path, "100,a,1,0,7,get,0\nno line\n").expect("a file");
        let error = read_trace(&path, None, |_| ()).expect_err("no line").to_string();
        std::fs::remove_file(&path).expect("the file");
        assert!(error.contains("line 2"), "{error}");
    }
}
