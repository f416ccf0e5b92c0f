//! `stats detail dump`: counts by prefix, in pieces that fit the output.

use protocol::reply::line;

use crate::flow::Flow;
use crate::output::{OUTPUT_MAX, Output};
use crate::worker::Worker;

/// A `stats detail dump` in progress: it can have megabytes, and the client need not read.
#[derive(Default)]
pub(crate) struct PrefixDump {
    /// The last prefix that was sent.
    after: Option<Box<[u8]>>,
}

impl PrefixDump {
    /// Sends the next lines.
    pub(crate) fn serve(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        self.after = worker.shared.prefixes.dump(self.after.as_deref(), OUTPUT_MAX, output.copied());
        if self.after.is_some() {
            return Flow::Yield;
        }
        output.copy(line::END);
        Flow::Go
    }
}
