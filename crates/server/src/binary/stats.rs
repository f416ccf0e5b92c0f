//! `stat`: the reports that memcached has in the binary protocol.

use protocol::request::{DetailCommand, StatsTopic};

use crate::reports::Report;
use crate::stats::{PrefixDump, Sizes, StatForm};
use crate::worker::Worker;

impl Worker {
    /// The report of this name; `None` if there is none. As in memcached, some names may have more bytes behind them.
    pub(super) fn binary_report(&self, opaque: [u8; 4], name: &[u8]) -> Option<Report> {
        let options = &self.shared.options;
        let form = StatForm::Packets { opaque };
        let topic = match name {
            b"" => StatsTopic::General,
            b"items" => StatsTopic::Items,
            b"slabs" => StatsTopic::Slabs,
            b"sizes" if options.track_sizes => return Some(Report::Sizes(Sizes::new(form))),
            b"sizes" => StatsTopic::Sizes,
            _ if name.starts_with(b"reset") => StatsTopic::Reset,
            _ if name.starts_with(b"settings") => StatsTopic::Settings,
            b"evenkeel times" => StatsTopic::Times,
            _ if !options.dumping => return None,
            b"evenkeel hot" => StatsTopic::HotKeys,
            _ if name.starts_with(b"detail dump") => return Some(Report::Prefixes(PrefixDump::new(form))),
            _ if name.starts_with(b"detail on") => StatsTopic::Detail(Ok(DetailCommand::On)),
            _ if name.starts_with(b"detail off") => StatsTopic::Detail(Ok(DetailCommand::Off)),
            _ => return None,
        };
        Some(Report::Statistics(topic, form))
    }
}
