//! Keys of a `get`, grouped by the destination that they belong to.

/// The keys of one `get`, by destination.
#[derive(Default)]
pub(crate) struct KeyGroups {
    pub(crate) groups: Vec<KeyGroup>,
    /// Groups whose memory is used again.
    pub(crate) spare: Vec<KeyGroup>,
}

/// Keys for one destination.
#[derive(Default)]
pub(crate) struct KeyGroup {
    pub(crate) place: u32,
    pub(crate) keys: Vec<KeySpan>,
}

/// A key of a line.
#[derive(Clone, Copy)]
pub(crate) struct KeySpan {
    pub(crate) start: u32,
    pub(crate) len: u8,
    /// Length of the routing prefix, if it is not sent.
    pub(crate) cut: u8,
    pub(crate) part: u32,
}

impl KeySpan {
    /// What the server gets.
    pub(crate) fn sent<'i>(&self, input: &'i [u8]) -> &'i [u8] {
        &self.whole(input)[usize::from(self.cut)..]
    }

    /// What the client wrote, if that differs.
    pub(crate) fn shown<'i>(&self, input: &'i [u8]) -> &'i [u8] {
        if self.cut == 0 { &[] } else { self.whole(input) }
    }

    fn whole<'i>(&self, input: &'i [u8]) -> &'i [u8] {
        &input[self.start as usize..][..usize::from(self.len)]
    }
}

impl KeyGroups {
    /// Adds a key. `group` is the destination's note of its place here.
    pub(crate) fn add(&mut self, place: u32, group: &mut Option<u32>, span: KeySpan) {
        let index = *group.get_or_insert_with(|| {
            let mut group = self.spare.pop().unwrap_or_default();
            group.place = place;
            self.groups.push(group);
            self.groups.len() as u32 - 1
        });
        self.groups[index as usize].keys.push(span);
    }
}
