//! Transcripts: conversations with a cache as text, and the comparison of a server with them.
//!
//! ```text
//! # A comment. The lines below are directives, they look like comments with a known first word.
//! # flags: -I 2m             the server is started with these (memcached's own flags; `@users` is a file
//!                           that lies with the transcripts)
//! # since 1.6.45             from here on an older memcached answers differently
//! # slow                     real seconds pass in here
//! # evenkeel only            memcached has nothing like it, and is not compared with this file
//!
//! > set a 0 0 1              sent, with \r\n after it; neighbouring lines leave in one piece
//! > x
//! < STORED                   the next line from the server, byte for byte
//! > gets a
//! < VALUE a 0 1 <cas:1>      a number, bound to the name cas:1: `<cas:1>` later means the same number, and two
//! < x                        names that begin with `cas:` never mean the same one (key b takes `<cas_b:1>`)
//! < END
//! # advance 2 s              time passes
//! 1> get a                   a second connection (0 is the one without a number), opened by its first line
//! 1<closed                   the server closes
//! >close                     the client closes
//! > stats
//! <+ STAT pid <number>       among the lines before the next `<`, in any order, others may be there
//! < END
//! > lru_crawler mgdump all
//! <= mg a                    exactly these lines before the next `<`, in any order
//! <= mg b
//! < EN
//! ```
//!
//! In text, `\xNN`, `\r`, `\n`, `\\` and `\<` stand for bytes; a `\` at the very end means: no line end here.
//! Fields: `<number>`, `<word>`, `<*>` (anything but a line end), `<98..100>` (a number in that range),
//! `<ab*250>` (repeated, both ways), `<now+60>` (seconds since 1970, only sent).
//!
//! After the last step the client closes each connection, and the server must not have sent anything more.
//!
//! What is not here: sockets, clocks, processes. [`run`] uses a [`Peer`], which is a real server in `end_to_end` and a
//! simulated driver in the tests of `server`.

pub mod pages;
mod parse;
mod run;
mod text;

pub use parse::{Action, Transcript, Version, parse_version};
pub use run::{Peer, ReceivedOutput, run};
pub use text::Text;

use std::path::PathBuf;

/// The directory of the project's transcripts.
pub fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../transcripts"))
}

/// The project's transcripts, in the order of their names.
///
/// # Panics
/// If one cannot be read: without transcripts, a test would pass without a check.
pub fn all() -> Vec<Transcript> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory())
        .expect("list dev/transcripts")
        .map(|entry| entry.expect("list dev/transcripts").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let name = path.file_stem().expect("a file has a name").to_string_lossy();
            let text = std::fs::read_to_string(path).expect("read a transcript");
            Transcript::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"))
        })
        .collect()
}
