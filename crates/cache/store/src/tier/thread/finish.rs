//! The end of a flash tier: what is in memory is written, or given up.
//!
//! There is no clock here: whoever ends a store decides how long he waits.

use flash::Disk;

use crate::store::Store;
use crate::sync::lock;
use crate::tier::state::Tier;

/// How far the thread of a tier is with writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashBacklog {
    /// Full pieces that wait to be written.
    pub waiting: u64,
    /// Pieces that wait no more, since the start.
    pub ended: u64,
}

impl Store {
    /// Makes the thread of the flash tier write all that is in memory, and nothing else, before [`Store::freeze`]: nothing goes there
    /// from now on. [`Store::go_on`] takes it back.
    pub fn begin_finish_flash(&self) {
        if let Some(tier) = &self.tier {
            tier.activity.begin_finish();
            tier.wake();
        }
    }

    /// Whether all is written since [`Store::begin_finish_flash`]; true without a tier.
    pub fn is_flash_finished(&self) -> bool {
        self.tier.as_ref().is_none_or(|tier| tier.activity.is_finished())
    }

    /// Writes all that is in memory of the flash tier, with the calling thread, where no thread does so.
    pub fn finish_flash(&self, disk: &dyn Disk) {
        self.begin_finish_flash();
        while self.flash_step(disk, &mut None) {}
    }

    /// Gives up what [`Store::begin_finish_flash`] has left in memory, because a device hangs: removes its items. Returns how many there
    /// were. The thread changes nothing from now on, even if its device answers.
    pub fn give_up_flash(&self) -> u64 {
        let Some(tier) = &self.tier else { return 0 };
        let _thread_waits = tier.activity.lock_changes();
        tier.activity.stay();
        let waiting = {
            let mut state = lock(&tier.state);
            state.pieces.close_all();
            state.pieces.take_waiting(&tier.rows)
        };
        let mut lost = 0;
        for piece in waiting {
            lost += self.drop_piece(tier, &piece);
            let mut state = lock(&tier.state);
            state.pieces.put_back(piece);
            tier.note_progress(&state);
        }
        lost
    }

    /// How far the thread of the flash tier is with writing; `None` without a tier.
    pub fn flash_backlog(&self) -> Option<FlashBacklog> {
        let state = lock(&self.tier.as_ref()?.state);
        Some(FlashBacklog { waiting: state.pieces.waiting() as u64, ended: state.pieces.ended() })
    }
}

impl Tier {
    /// Goes on after an end that came to nothing.
    pub(crate) fn resume(&self) {
        self.activity.resume();
        self.wake();
    }
}
