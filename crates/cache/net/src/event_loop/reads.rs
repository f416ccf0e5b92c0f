//! Reads of files: begun after a round, reported to the handler at the start of a later one.

use rustix::io::Errno;

use crate::event_loop::turn::Turn;
use crate::files::file_read::{FileRead, FinishedRead};
use crate::handler::Handler;
use crate::kernel::Kernel;

/// The reads of a worker that have finished.
#[derive(Default)]
pub(super) struct Reads {
    /// Results that the handler has not been told.
    finished: Vec<FinishedRead>,
    /// An event says that the kernel has some.
    ready: bool,
}

impl Reads {
    /// Notes the event that the kernel has results.
    pub(super) fn note_event(&mut self) {
        self.ready = true;
    }

    /// Whether there are results to report.
    #[inline]
    pub(super) fn have_results(&self) -> bool {
        self.ready || !self.finished.is_empty()
    }

    /// Begins the reads that were ordered.
    #[cold]
    pub(super) fn begin<Held: AsRef<[u8]>>(&mut self, kernel: &mut impl Kernel, turn: &mut Turn<Held>) {
        kernel.begin_reads(turn.take_reads(), &mut self.finished);
    }

    /// Reports results to the handler, and continues reads that were short. There are at most as many as may be in flight.
    #[cold]
    pub(super) fn report<H: Handler>(
        &mut self,
        kernel: &mut impl Kernel,
        handler: &mut H,
        turn: &mut Turn<H::Held>,
    ) {
        if std::mem::take(&mut self.ready) {
            kernel.take_finished_reads(&mut self.finished);
        }
        let mut unfinished = Vec::new();
        for finished in std::mem::take(&mut self.finished) {
            unfinished.extend(report(finished, handler, turn));
        }
        if !unfinished.is_empty() {
            kernel.begin_reads(unfinished, &mut self.finished);
        }
    }

    /// Reports the end of all reads: those that finish within a moment have their result, the others are cancelled.
    pub(super) fn end<H: Handler>(
        &mut self,
        kernel: &mut impl Kernel,
        handler: &mut H,
        turn: &mut Turn<H::Held>,
    ) {
        let unfinished = turn.take_reads();
        kernel.end_reads(&mut self.finished);
        let mut finished = std::mem::take(&mut self.finished);
        finished.extend(unfinished.into_iter().map(|read| FinishedRead::Done(read, Err(Errno::CANCELED))));
        for finished in finished {
            if let Some(read) = report(finished, handler, turn) {
                report(FinishedRead::Done(read, Err(Errno::CANCELED)), handler, turn);
            }
        }
    }
}

/// Reports a result, or returns the read to be continued.
fn report<H: Handler>(finished: FinishedRead, handler: &mut H, turn: &mut Turn<H::Held>) -> Option<FileRead> {
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
    turn.read_ended();
    handler.on_read(tag, result, turn);
    None
}
