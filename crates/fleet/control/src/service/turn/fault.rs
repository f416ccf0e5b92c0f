//! The refusal of a turn, and the longest text for people in it.

/// Bytes of a reason or an address that are kept.
pub const TEXT_MAX: usize = 500;

/// Why a turn is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnFault {
    /// More than a host can have.
    #[error("the turn has {found} {what}, and at most {most} are accepted")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// Two reports about the same.
    #[error("the turn names {0} twice")]
    Twice(String),
}

/// Takes off what is beyond [`TEXT_MAX`] bytes.
pub(super) fn shorten(text: &mut String) {
    text.truncate(text.floor_char_boundary(TEXT_MAX));
}
