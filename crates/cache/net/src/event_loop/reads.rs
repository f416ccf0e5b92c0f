//! Reads of files: begun after a round, reported to the handler at the start of a later one.

use rustix::io::Errno;

use super::EventLoop;
use crate::files::file_read::{FileRead, FinishedRead};
use crate::handler::Handler;
use crate::kernel::Kernel;

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Begins the reads that were ordered.
    #[cold]
    pub(super) fn begin_reads(&mut self) {
        self.kernel.begin_reads(self.turn.take_reads(), &mut self.finished_reads);
    }

    /// Reports results to the handler, and continues reads that were short. There are at most as many as may be in flight.
    #[cold]
    pub(super) fn finish_reads(&mut self) {
        if std::mem::take(&mut self.reads_ready) {
            self.kernel.take_finished_reads(&mut self.finished_reads);
        }
        let mut unfinished = Vec::new();
        for finished in std::mem::take(&mut self.finished_reads) {
            unfinished.extend(self.finish_read(finished));
        }
        if !unfinished.is_empty() {
            self.kernel.begin_reads(unfinished, &mut self.finished_reads);
        }
    }

    /// Reports a result, or returns the read to be continued.
    fn finish_read(&mut self, finished: FinishedRead) -> Option<FileRead> {
        let (tag, result) = match finished {
            FinishedRead::Done(read, Err(Errno::INTR)) => return Some(read),
            FinishedRead::Done(mut read, Ok(len)) => {
                read.block.advance(len);
                // Nothing is what follows the end of the file.
                if len > 0 && read.block.can_continue() {
                    return Some(read);
                }
                (read.tag, Ok(read.block))
            }
            FinishedRead::Done(read, Err(error)) => (read.tag, Err(error)),
            FinishedRead::Lost(tag, error) => (tag, Err(error)),
        };
        // Before the call, so that there is room for another read.
        self.turn.read_ended();
        self.handler.on_read(tag, result, &mut self.turn);
        None
    }

    /// Reports the end of all reads: those that finish within a moment have their result, the others are cancelled.
    pub(super) fn end_reads(&mut self) {
        let unfinished = self.turn.take_reads();
        self.kernel.end_reads(&mut self.finished_reads);
        let mut finished = std::mem::take(&mut self.finished_reads);
        finished.extend(unfinished.into_iter().map(|read| FinishedRead::Done(read, Err(Errno::CANCELED))));
        for finished in finished {
            if let Some(read) = self.finish_read(finished) {
                self.finish_read(FinishedRead::Done(read, Err(Errno::CANCELED)));
            }
        }
    }
}
