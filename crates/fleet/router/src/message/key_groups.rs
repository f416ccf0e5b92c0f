//! Keys of a `get`, grouped by the destination that they belong to.

use crate::plan::NodeId;

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
    /// Adds a key. `group` is the destination's note of its place here. False: the destination has a group of another route.
    #[must_use]
    pub(crate) fn add(
        &mut self,
        place: u32,
        group: &mut Option<u32>,
        failover: Option<NodeId>,
        span: KeySpan,
    ) -> bool {
        let index = *group.get_or_insert_with(|| {
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
}
