//! Limit of the values that a worker puts together or writes in parts.

/// Bytes of values that a worker puts together, with what their parts take besides, and of those that it writes in parts.
#[derive(Debug)]
pub(crate) struct Assembled {
    bytes: usize,
    /// No window of a client bounds them, and sets without a reply have none: this does.
    max: usize,
}

/// See [`Assembled::max`]: two of the longest values.
const ASSEMBLED_MAX: usize = 256 << 20;

impl Default for Assembled {
    fn default() -> Assembled {
        Assembled { bytes: 0, max: ASSEMBLED_MAX }
    }
}

impl Assembled {
    /// Counts further bytes, if there is room.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.bytes + bytes <= self.max;
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Counts them no more.
    pub(super) fn give(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// What is counted.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Another limit.
    #[cfg(test)]
    pub(crate) fn limit(&mut self, max: usize) {
        self.max = max;
    }
}
