//! ConstShard: the key names its child, as in `prefix:3:rest`; if it does not, Ch3 decides.

use super::ch3::ch3;

/// The child of a key among `count` of them.
pub(super) fn select(key: &[u8], count: u32) -> u32 {
    shard(key).filter(|&shard| shard < count).unwrap_or_else(|| ch3(key, count))
}

/// The number between the first two colons.
fn shard(key: &[u8]) -> Option<u32> {
    let mut parts = key.split(|&byte| byte == b':');
    let digits = parts.nth(1)?;
    // Without a second colon it is no shard.
    parts.next()?;
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
