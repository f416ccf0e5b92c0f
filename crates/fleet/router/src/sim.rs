//! A router in a simulated network, for tests and fuzzing: properties that hold for any bytes.
//!
//! Each check panics where its property does not hold.

mod client;
mod config;
mod hosts;
mod server;

pub use client::check_client;
pub use config::check_config;
pub use server::check_server;

/// Pieces of a conversation: the first byte of `input` says how many cuts there are, two bytes for each cut follow, and then
/// the conversation. Returned as a whole, and cut. `None` where there are too few bytes.
fn cut(input: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (&first, rest) = input.split_first()?;
    let (positions, conversation) = rest.split_at_checked(2 * usize::from(first % 16))?;
    let at = |pair: &[u8]| usize::from(u16::from_le_bytes([pair[0], pair[1]])) % (conversation.len() + 1);
    let mut cuts: Vec<usize> = positions.chunks(2).map(at).collect();
    cuts.sort_unstable();
    let (mut pieces, mut start) = (Vec::new(), 0);
    for end in cuts.into_iter().chain([conversation.len()]) {
        pieces.push(&conversation[start..end]);
        start = end;
    }
    Some((conversation, pieces))
}
