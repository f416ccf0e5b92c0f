//! Options of UDP (`-U`).

use std::net::IpAddr;

/// The bytes of replies to a network in a second (`--udp-reply-rate`), in the default.
pub(crate) const REPLY_RATE_DEFAULT: u64 = 64 * stdx::units::MIB;

/// The networks in the default: the machine itself, and those that are not routed in the Internet (RFC 1918, RFC
/// 4193).
pub(crate) const ALLOW_DEFAULT: &str = "127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7";

/// Who gets replies over UDP, and how much.
#[derive(Clone, Debug, PartialEq)]
pub struct UdpLimits {
    /// `--udp-allow`: senders that are served.
    pub allow: Vec<IpNetwork>,
    /// `--udp-reply-rate`: bytes of replies to a network in a second; 0 for no limit.
    pub reply_bytes_per_second: u64,
}

impl Default for UdpLimits {
    fn default() -> UdpLimits {
        let allow = parse_networks(ALLOW_DEFAULT).expect("the default is a list of networks");
        UdpLimits { allow, reply_bytes_per_second: REPLY_RATE_DEFAULT }
    }
}

impl UdpLimits {
    /// Whether a sender is served.
    #[inline]
    pub(crate) fn allows(&self, sender: IpAddr) -> bool {
        self.allow.iter().any(|network| network.contains(sender))
    }
}

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    /// Their number: at most 32 for IPv4, at most 128 for IPv6.
    prefix_len: u32,
}

impl IpNetwork {
    /// Whether it has this address.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differing = u32::from(ours) ^ u32::from(theirs);
                differing.leading_zeros() >= self.prefix_len
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differing = u128::from(ours) ^ u128::from(theirs);
                differing.leading_zeros() >= self.prefix_len
            }
            _ => false,
        }
    }
}

/// Parses networks such as `10.0.0.0/8` or single addresses, separated by commas. The error is a clause.
pub(super) fn parse_networks(list: &str) -> Result<Vec<IpNetwork>, String> {
    list.split(',').map(|network| parse_network(network.trim())).collect()
}

fn parse_network(text: &str) -> Result<IpNetwork, String> {
    let (address, prefix_len) = text.split_once('/').map_or((text, None), |(a, len)| (a, Some(len)));
    let expected = || format!("expected a network such as 10.0.0.0/8 or an address, found `{text}`");
    let address: IpAddr = address.parse().map_err(|_| expected())?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix_len = match prefix_len {
        None => bits,
        Some(digits) => match digits.parse() {
            Ok(len) if len <= bits => len,
            _ => return Err(format!("expected a prefix of 0 to {bits} bits, found `{text}`")),
        },
    };
    Ok(IpNetwork { address, prefix_len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, inside: &[&str], outside: &[&str]) {
        let udp = UdpLimits { allow: parse_networks(list).expect(list), ..UdpLimits::default() };
        let allows = |address: &&str| udp.allows(address.parse().expect("an address"));
        assert!(inside.iter().all(allows), "{list}");
        assert!(!outside.iter().any(allows), "{list}");
    }

    #[test]
    fn networks_have_the_addresses_with_their_prefix() {
        check("10.0.0.0/8", &["10.0.0.1", "10.255.0.0"], &["11.0.0.1", "::a00:1", "9.255.255.255"]);
        check("192.0.2.7", &["192.0.2.7"], &["192.0.2.6"]);
        check("0.0.0.0/0", &["255.255.255.255", "0.0.0.0"], &["::1"]);
        check("fc00::/7, 2001:db8::1", &["fd12::1", "fc00::", "2001:db8::1"], &["fe80::1", "2001:db8::2"]);
        check(ALLOW_DEFAULT, &["127.0.0.1", "::1", "172.31.0.1", "192.168.1.1"], &["172.32.0.1", "8.8.8.8"]);
    }

    #[test]
    fn what_is_no_network_is_named() {
        for text in ["", "10.0.0.0/33", "10.0.0", "::/129", "a/8", "10.0.0.0/", "10.0.0.0/-1"] {
            let error = parse_networks(text).expect_err(text);
            assert!(error.starts_with("expected a ") && error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
