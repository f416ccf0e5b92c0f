//! The end of a server with items on flash: how long it waits for devices, before and after its clients.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use store::{FlashBacklog, FlashSizes, Store};

use crate::Provisioned;

/// Between two looks at how far the thread `flash` is.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Stops a server for its successor, from any thread.
pub struct HandOver {
    stop: net::Stop,
    store: Weak<Store>,
}

impl Provisioned {
    /// Access to the beginning of a hand-over.
    pub fn hand_over(&self) -> HandOver {
        HandOver { stop: self.stop(), store: Arc::downgrade(&self.shared.store) }
    }

    /// The sizes of the flash tier, if there is one.
    pub fn flash_sizes(&self) -> Option<FlashSizes> {
        self.shared.store.flash_sizes()
    }
}

impl HandOver {
    /// Waits, while clients are served, until the devices have taken what is to be written now: the pause for the rest is short then.
    /// False: they have not, within `patience`.
    pub fn wait_for_flash(&self, patience: Duration) -> bool {
        let backlog = || self.store.upgrade().and_then(|store| store.flash_backlog());
        let Some(FlashBacklog { waiting, ended }) = backlog() else { return true };
        wait(patience, || backlog().is_none_or(|now| now.ended >= ended + waiting))
    }

    /// Stops the server. Requests that have begun may end within `patience`.
    pub fn begin(&self, patience: Duration) {
        self.stop.hand_over(patience);
    }
}

/// Waits until all items that are to go to flash are there. False: they are not, within `patience`.
pub(crate) fn finish(store: &Store, patience: Duration) -> bool {
    store.begin_finish_flash();
    wait(patience, || store.is_flash_finished())
}

fn wait(patience: Duration, is_over: impl Fn() -> bool) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a thread that waits for another one")]
    let began = Instant::now();
    while !is_over() {
        if began.elapsed() >= patience {
            return false;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    true
}
