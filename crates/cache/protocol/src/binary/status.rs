//! Statuses of replies.

/// The status of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ReplyStatus {
    /// Done.
    Success = 0x00,
    /// No such item.
    NotFound = 0x01,
    /// The item is there, or has another CAS unique.
    Exists = 0x02,
    /// The value is too large.
    TooLarge = 0x03,
    /// The lengths in the header do not suit the opcode.
    InvalidArguments = 0x04,
    /// There is nothing to append or prepend to.
    NotStored = 0x05,
    /// The value is not a number.
    NotNumeric = 0x06,
    /// Not authenticated, or not allowed.
    AuthError = 0x20,
    /// Another step of an authentication is needed.
    AuthContinue = 0x21,
    /// Unknown opcode, or lengths that contradict each other.
    UnknownCommand = 0x81,
    /// There is no memory.
    OutOfMemory = 0x82,
}

impl ReplyStatus {
    /// All of them.
    pub const ALL: &[ReplyStatus] = &[
        ReplyStatus::Success,
        ReplyStatus::NotFound,
        ReplyStatus::Exists,
        ReplyStatus::TooLarge,
        ReplyStatus::InvalidArguments,
        ReplyStatus::NotStored,
        ReplyStatus::NotNumeric,
        ReplyStatus::AuthError,
        ReplyStatus::AuthContinue,
        ReplyStatus::UnknownCommand,
        ReplyStatus::OutOfMemory,
    ];

    /// The status with this number.
    pub fn of(number: u16) -> Option<ReplyStatus> {
        ReplyStatus::ALL.iter().copied().find(|status| *status as u16 == number)
    }

    /// memcached's text for an error; empty for the others.
    pub fn text(self) -> &'static str {
        match self {
            ReplyStatus::Success | ReplyStatus::AuthContinue => "",
            ReplyStatus::NotFound => "Not found",
            ReplyStatus::Exists => "Data exists for key.",
            ReplyStatus::TooLarge => "Too large.",
            ReplyStatus::InvalidArguments => "Invalid arguments",
            ReplyStatus::NotStored => "Not stored.",
            ReplyStatus::NotNumeric => "Non-numeric server-side value for incr or decr",
            ReplyStatus::AuthError => "Auth failure.",
            ReplyStatus::UnknownCommand => "Unknown command",
            ReplyStatus::OutOfMemory => "Out of memory",
        }
    }
}
