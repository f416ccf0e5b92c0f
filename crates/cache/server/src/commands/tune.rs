//! Commands that change settings: `extstore`; and those for memcached subsystems that do not exist here: `slabs`, `lru`, and
//! most of `lru_crawler`, which affect only `stats settings` and the replies of these commands.

use protocol::reply::line;
use protocol::request::{Automove, ExtstoreKnob, LruCommand, LruMode, SlabsCommand};
use store::Store;

use crate::settings::options::Echo;

/// memcached's slab classes; 0 is the pool of free pages.
const CLASSES: std::ops::Range<i32> = 0..protocol::limits::SLAB_CLASSES as i32;

/// Stores the settings of a `slabs` command, and returns the reply.
pub(crate) fn slabs(echo: &mut Echo, command: SlabsCommand) -> &'static [u8] {
    match command {
        SlabsCommand::Automove(automove) => {
            match automove {
                Automove::Level(level) => echo.slab_automove = level,
                Automove::Ratio(ratio) => echo.slab_automove_ratio = ratio,
                Automove::FreeRatio(ratio) => echo.slab_automove_freeratio = ratio,
                Automove::Window(window) => echo.slab_automove_window = window,
            }
            line::OK
        }
        SlabsCommand::Reassign(_) if !echo.slab_reassign => line::REASSIGN_DISABLED,
        SlabsCommand::Reassign(Err(error)) => error,
        SlabsCommand::Reassign(Ok((from, to))) if from == to => line::REASSIGN_SAME,
        SlabsCommand::Reassign(Ok((from, to))) if !CLASSES.contains(&from) || !CLASSES.contains(&to) => {
            line::REASSIGN_BAD_CLASS
        }
        // There are no slab classes to move pages between.
        SlabsCommand::Reassign(Ok(_)) => line::REASSIGN_NO_SPARE,
    }
}

/// Stores a setting of an `extstore` command, puts it into force if there is a flash tier, and returns the reply.
pub(crate) fn extstore(echo: &mut Echo, store: &Store, knob: ExtstoreKnob) -> &'static [u8] {
    echo.extstore.set(knob);
    store.set_flash(|settings| *settings = echo.extstore.flash());
    line::OK
}

/// Stores the settings of an `lru` command, and returns the reply.
pub(crate) fn lru(echo: &mut Echo, command: LruCommand) -> &'static [u8] {
    match command {
        LruCommand::Tune { hot_percent, warm_percent, hot_factor, warm_factor } => {
            (echo.hot_lru_pct, echo.warm_lru_pct) = (hot_percent, warm_percent);
            (echo.hot_max_factor, echo.warm_max_factor) = (hot_factor, warm_factor);
        }
        _ if !echo.lru_maintainer => return line::ERROR,
        LruCommand::Mode(mode) => echo.lru_segmented = mode == LruMode::Segmented,
        LruCommand::TempTtl(ttl_s) => {
            echo.temp_lru = ttl_s.is_some();
            echo.temporary_ttl_s = ttl_s.unwrap_or(echo.temporary_ttl_s);
        }
    }
    line::OK
}
