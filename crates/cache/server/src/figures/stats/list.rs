//! Lists of statistics: lines of text, or packets of the binary protocol.

use std::fmt::Display;

use protocol::binary;
use protocol::reply::{self, line};

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatForm {
    /// `STAT` lines, and `END`.
    Text,
    /// A packet for each statistic, and an empty one at the end.
    Packets {
        /// What the packets repeat of the request.
        opaque: [u8; 4],
    },
}

/// A list in the making.
pub(crate) struct StatList<'o> {
    out: &'o mut Vec<u8>,
    form: StatForm,
}

impl StatForm {
    /// A list that is appended to `out`.
    pub(crate) fn list(self, out: &mut Vec<u8>) -> StatList<'_> {
        StatList { out, form: self }
    }
}

impl StatList<'_> {
    /// Ends the list.
    pub(crate) fn end(self) {
        self.end_with(line::END);
    }

    /// Ends the list, in text with this line.
    pub(crate) fn end_with(self, line: &[u8]) {
        match self.form {
            StatForm::Text => self.out.extend_from_slice(line),
            StatForm::Packets { opaque } => binary::reply::stat(self.out, opaque, "", ""),
        }
    }
}

/// Appends one statistic.
pub(crate) fn stat(list: &mut StatList<'_>, name: impl Display, value: impl Display) {
    match list.form {
        StatForm::Text => reply::stat(list.out, name, value),
        StatForm::Packets { opaque } => binary::reply::stat(list.out, opaque, name, value),
    }
}
