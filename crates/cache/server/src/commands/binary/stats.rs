//! `stat`: the reports that memcached has in the binary protocol.

use protocol::request::{DetailCommand, StatsTopic};

use super::topic::stats_topic;
use crate::figures::stats::{PrefixDump, Sizes, StatForm};
use crate::reports::Report;
use crate::worker::Worker;

impl Worker {
    /// The report of this name; `None` if there is none.
    pub(super) fn binary_report(&self, opaque: [u8; 4], name: &[u8]) -> Option<Report> {
        let options = &self.shared.options;
        let form = StatForm::Packets { opaque };
        match stats_topic(name)? {
            StatsTopic::Sizes if options.track_sizes => Some(Report::Sizes(Sizes::new(form))),
            StatsTopic::HotKeys | StatsTopic::Detail(_) if !options.dumping => None,
            StatsTopic::Detail(Ok(DetailCommand::Dump)) => Some(Report::Prefixes(PrefixDump::new(form))),
            topic => Some(Report::Statistics(topic, form)),
        }
    }
}
