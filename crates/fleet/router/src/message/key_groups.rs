//! Keys of a `get`, grouped by the destination that they belong to.

use crate::plan::NodeId;

/// The keys of one `get`, by destination.
#[derive(Default)]
pub(crate) struct KeyGroups {
    groups: Vec<KeyGroup>,
    /// The index among `groups` of each destination that has one, by its place.
    of_place: Vec<Option<u32>>,
    /// Groups whose memory is used again.
    spare: Vec<KeyGroup>,
}

/// Keys for one destination.
#[derive(Default)]
pub(crate) struct KeyGroup {
    pub(crate) place: u32,
    /// A FailoverRoute that is asked if they fail.
    pub(crate) failover: Option<NodeId>,
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
        &self.client_key(input)[usize::from(self.cut)..]
    }

    /// What the client wrote, if that differs.
    pub(crate) fn shown<'i>(&self, input: &'i [u8]) -> &'i [u8] {
        if self.cut == 0 { &[] } else { self.client_key(input) }
    }

    /// What the client wrote.
    pub(crate) fn client_key<'i>(&self, input: &'i [u8]) -> &'i [u8] {
        &input[self.start as usize..][..usize::from(self.len)]
    }
}

impl KeyGroups {
    /// Adds a key. False: the destination has a group of another route.
    #[must_use]
    pub(crate) fn add(&mut self, place: u32, failover: Option<NodeId>, span: KeySpan) -> bool {
        if self.of_place.len() <= place as usize {
            self.of_place.resize(place as usize + 1, None);
        }
        let index = *self.of_place[place as usize].get_or_insert_with(|| {
            let mut group = self.spare.pop().unwrap_or_default();
            (group.place, group.failover) = (place, failover);
            self.groups.push(group);
            self.groups.len() as u32 - 1
        });
        let group = &mut self.groups[index as usize];
        if group.failover == failover {
            group.keys.push(span);
        }
        group.failover == failover
    }

    /// Takes all groups, which are to be given back in their order.
    pub(crate) fn take(&mut self) -> Vec<KeyGroup> {
        for group in &self.groups {
            self.of_place[group.place as usize] = None;
        }
        std::mem::take(&mut self.groups)
    }

    /// Keeps the memory of groups whose keys have been sent.
    pub(crate) fn keep(&mut self, mut groups: Vec<KeyGroup>) {
        for mut group in groups.drain(..) {
            group.keys.clear();
            self.spare.push(group);
        }
        self.groups = groups;
    }
}
