//! Names of reports of the binary protocol.

use protocol::request::{DetailCommand, StatsTopic};

/// The topic of this name; `None` if there is none. As in memcached, some names may have more bytes behind them.
pub(crate) fn stats_topic(name: &[u8]) -> Option<StatsTopic> {
    let topic = match name {
        b"" => StatsTopic::General,
        b"items" => StatsTopic::Items,
        b"slabs" => StatsTopic::Slabs,
        b"sizes" => StatsTopic::Sizes,
        b"evenkeel times" => StatsTopic::Times,
        b"evenkeel hot" => StatsTopic::HotKeys,
        _ if name.starts_with(b"reset") => StatsTopic::Reset,
        _ if name.starts_with(b"settings") => StatsTopic::Settings,
        _ if name.starts_with(b"detail dump") => StatsTopic::Detail(Ok(DetailCommand::Dump)),
        _ if name.starts_with(b"detail on") => StatsTopic::Detail(Ok(DetailCommand::On)),
        _ if name.starts_with(b"detail off") => StatsTopic::Detail(Ok(DetailCommand::Off)),
        _ => return None,
    };
    Some(topic)
}
