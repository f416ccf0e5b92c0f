//! A handler for tests that reads files: a line `POSITION LENGTH` is answered with `:`, that part of the file and a line end, or
//! with `error NUMBER`, or `busy` where no read is taken. Other lines are echoed.
//!
//! An example of a reply that waits: while its read is in flight, a connection says [`Next::Wait`], so that its later requests
//! are neither received nor answered before.

use std::collections::BTreeMap;

use rustix::io::Errno;
use stdx::gather::Gather;

use crate::event_loop::turn::{Link, Turn};
use crate::files::block::Block;
use crate::files::file_read::DiskFile;
use crate::handler::{CloseReason, Handler, Next, Opened, Progress};

pub(crate) struct ReadingHandler {
    /// `None` once the test has taken it.
    pub(crate) file: Option<DiskFile>,
    /// Of the blocks.
    pub(crate) alignment: usize,
    /// Connections that wait for a read, by tag.
    waiting: BTreeMap<u64, Link>,
    next_tag: u64,
    /// Results by tag: lengths or errors.
    pub(crate) results: Vec<(u64, Result<usize, Errno>)>,
}

impl ReadingHandler {
    pub(crate) fn new(file: impl Into<DiskFile>) -> ReadingHandler {
        let (waiting, results) = (BTreeMap::new(), Vec::new());
        ReadingHandler { file: Some(file.into()), alignment: 1, waiting, next_tag: 0, results }
    }

    /// Reads that have been ordered.
    pub(crate) fn ordered(&self) -> usize {
        self.next_tag as usize
    }

    /// Orders the read that a line asks for; whether it was taken. `None`: it asks for none.
    fn order(&mut self, line: &str, link: Link, turn: &mut Turn<Block>) -> Option<bool> {
        let (at, len) = line.split_once(' ')?;
        let (at, len) = (at.parse().ok()?, len.parse().ok()?);
        let block = Block::aligned(len, self.alignment);
        let taken = turn.read(self.file.as_ref()?, at, block, self.next_tag).is_ok();
        if taken {
            self.waiting.insert(self.next_tag, link);
            self.next_tag += 1;
        }
        Some(taken)
    }
}

impl Handler for ReadingHandler {
    type Connection = Link;
    type Held = Block;

    fn on_open(&mut self, opened: &Opened, _turn: &mut Turn<Block>) -> Link {
        opened.link
    }

    fn on_bytes(
        &mut self,
        link: &mut Link,
        input: &[u8],
        output: &mut Gather<Block>,
        turn: &mut Turn<Block>,
    ) -> Progress {
        let mut consumed = 0;
        while let Some(len) = input[consumed..].iter().position(|byte| *byte == b'\n') {
            let line = &input[consumed..consumed + len];
            consumed += len + 1;
            match self.order(&String::from_utf8_lossy(line), *link, turn) {
                Some(true) => return Progress { consumed, next: Next::Wait },
                Some(false) => output.copy(b"busy\n"),
                None => output.copy(&[line, b"\n"].concat()),
            }
        }
        Progress { consumed, next: Next::Read }
    }

    fn on_read(&mut self, tag: u64, result: Result<Block, Errno>, turn: &mut Turn<Block>) {
        self.results.push((tag, result.as_ref().map(|block| block.bytes().len()).map_err(|error| *error)));
        let Some(link) = self.waiting.remove(&tag) else { panic!("a second result of read {tag}") };
        // The connection may be gone.
        let Some(output) = turn.output(link) else { return };
        match result {
            Ok(block) => {
                output.copy(b":");
                if !block.bytes().is_empty() {
                    output.hold(block);
                }
                output.copy(b"\n");
            }
            Err(error) => output.copy(format!("error {}\n", error.raw_os_error()).as_bytes()),
        }
        turn.wake(link);
    }

    fn on_close(&mut self, _link: Link, _reason: CloseReason, _turn: &mut Turn<Block>) {}
}
