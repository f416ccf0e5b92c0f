//! `stats detail dump`: counts by prefix, in pieces that fit the output.

use protocol::reply::line;

use super::list::{StatForm, stat};
use crate::connection::flow::Flow;
use crate::connection::output::{OUTPUT_MAX, Output};
use crate::worker::Worker;

/// A `stats detail dump` in progress: it can have megabytes, and the client need not read.
///
/// In the binary protocol the lines are the value of one statistic; of several where they do not fit the output, because
/// a packet's length comes before its value.
pub(crate) struct PrefixDump {
    form: StatForm,
    /// The last prefix that was sent.
    after: Option<Box<[u8]>>,
}

impl PrefixDump {
    pub(crate) fn new(form: StatForm) -> PrefixDump {
        PrefixDump { form, after: None }
    }

    /// Sends the next lines.
    pub(crate) fn serve(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        let mut lines = Vec::new();
        self.after = worker.shared.prefixes.dump(self.after.as_deref(), OUTPUT_MAX, &mut lines);
        let is_last = self.after.is_none();
        if is_last {
            lines.extend_from_slice(line::END);
        }
        match self.form {
            StatForm::Text => output.copy(&lines),
            StatForm::Packets { .. } => {
                let mut list = self.form.list(output.copied());
                // Prefixes are printed in text that is readable everywhere.
                stat(&mut list, "detailed", String::from_utf8_lossy(&lines));
                if is_last {
                    list.end();
                }
            }
        }
        if is_last { Flow::Go } else { Flow::Yield }
    }
}
