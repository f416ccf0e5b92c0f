//! The protocol of connections, by `-B` or by a prefix of `-l`.

/// The protocol that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol of the client's first byte.
    Auto,
    /// The text protocol and its meta commands.
    Ascii,
    /// The binary protocol.
    Binary,
}
