//! Sizes as people write them: `512`, `64k`, `1m`, `2g`.

/// One KiB, in bytes.
pub const KIB: u64 = 1024;
/// One MiB, in bytes.
pub const MIB: u64 = 1024 * KIB;
/// One GiB, in bytes.
pub const GIB: u64 = 1024 * MIB;

/// Reads a size in bytes; `k`, `m` and `g` (either case) are binary multiples, as in memcached's `-I`.
pub fn parse_size(text: &str) -> Option<u64> {
    let unit = match text.bytes().last()?.to_ascii_lowercase() {
        b'k' => KIB,
        b'm' => MIB,
        b'g' => GIB,
        _ => 1,
    };
    let digits = if unit == 1 { text } else { &text[..text.len() - 1] };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("64k"), Some(64 * KIB));
        assert_eq!(parse_size("1M"), Some(MIB));
        assert_eq!(parse_size("2g"), Some(2 * GIB));
        for bad in ["", "k", "+1", "-1", "1x", "1 k", "99999999999g"] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
    }
}
