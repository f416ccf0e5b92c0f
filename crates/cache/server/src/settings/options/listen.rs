//! Addresses to listen on, read from `-l`.

use std::path::PathBuf;

use tls::PeerCheck;

use super::protocol::Protocol;

/// An address to listen on, as given: names are not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Every address that the host name resolves to; without a host, every interface (IPv4 and IPv6, each with
    /// its own socket). Port 0 lets the kernel choose.
    Tcp {
        /// Name or address, IPv6 without its brackets.
        host: Option<String>,
        /// Port, 0 for any.
        port: u16,
        /// Whether clients must show a certificate; `None` for plain text.
        secure: Option<PeerCheck>,
        /// The protocol that is spoken here; `None` for that of `-B`.
        protocol: Option<Protocol>,
    },
    /// The same addresses, for datagrams, which are never encrypted.
    Udp {
        /// Name or address, IPv6 without its brackets.
        host: Option<String>,
        /// Port, 0 for any.
        port: u16,
        /// The protocol that is spoken here; `None` for that of `-B`.
        protocol: Option<Protocol>,
    },
    /// A socket in the file system.
    Unix {
        /// Path of the socket; an old socket there is replaced.
        path: PathBuf,
        /// The permission bits that the socket file gets (0o700 unless `-a` says otherwise).
        mask: u32,
    },
    /// A socket that listens already, made by another process: its descriptor in this one.
    Inherited(i32),
}

impl Listen {
    /// The protocol that the address itself asks for.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        match self {
            Listen::Tcp { protocol, .. } | Listen::Udp { protocol, .. } => *protocol,
            Listen::Unix { .. } | Listen::Inherited(_) => None,
        }
    }
}

/// The address of `--metrics-listen`: its name is not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsAddress {
    /// Name or address, IPv6 without its brackets; without it, every interface.
    pub host: Option<String>,
    /// Port, 0 for any.
    pub port: u16,
}

/// The port of metrics if none is given: that of memcached_exporter, so that scrape jobs for it find it.
const METRICS_PORT: u16 = 9150;

/// The first descriptor that is not a standard stream. systemd passes sockets from here on.
pub const FIRST_INHERITED: i32 = 3;

/// The longest tag that memcached takes.
const TAG_LEN_MAX: usize = 8;

/// What counts for an address that does not say otherwise.
#[derive(Clone, Copy)]
pub(super) struct ListenDefaults {
    pub(super) port: u16,
    /// With `-Z`: whether clients must show a certificate.
    pub(super) secure: Option<PeerCheck>,
}

/// Parses `[notls:|btls:|mtls:][proto[name]:][tag[name]:]host[:port]`, separated by commas or semicolons. The error is a
/// clause that names the address and the problem.
pub(super) fn parse_list(list: &str, defaults: ListenDefaults) -> Result<Vec<Listen>, String> {
    let addresses = list.split([',', ';']).map(str::trim).filter(|address| !address.is_empty());
    addresses
        .map(|address| parse(address, defaults).map_err(|problem| format!("-l {address}: {problem}")))
        .collect()
}

/// Parses `host[:port]`. The error is a clause that names the address and the problem.
pub(super) fn parse_metrics(address: &str) -> Result<MetricsAddress, String> {
    let parsed = host_and_port(address, METRICS_PORT);
    let (host, port) = parsed.map_err(|problem| format!("--metrics-listen {address}: {problem}"))?;
    if host.is_empty() {
        return Err(format!("--metrics-listen {address}: expected a name, an address or *, found nothing"));
    }
    Ok(MetricsAddress { host: (host != "*").then(|| host.to_owned()), port })
}

/// Parses descriptors, separated by commas. The error is a clause that names the list.
pub(super) fn parse_descriptors(list: &str) -> Result<Vec<i32>, String> {
    let number = |word: &str| word.trim().parse().ok().filter(|number| *number >= FIRST_INHERITED);
    list.split(',').map(number).collect::<Option<_>>().ok_or_else(|| {
        format!("--listen-fd {list}: expected descriptors from {FIRST_INHERITED} on, separated by commas")
    })
}

fn parse(address: &str, defaults: ListenDefaults) -> Result<Listen, String> {
    let (secure, rest) = security(address, defaults.secure)?;
    let (protocol, rest) = protocol(rest)?;
    let rest = without_tag(rest)?;
    let (host, port) = host_and_port(rest, defaults.port)?;
    if host.is_empty() {
        return Err("expected a name, an address or *, found nothing".to_owned());
    }
    Ok(Listen::Tcp { host: (host != "*").then(|| host.to_owned()), port, secure, protocol })
}

/// The prefix that selects TLS or plain text, and what follows it.
fn security(address: &str, default: Option<PeerCheck>) -> Result<(Option<PeerCheck>, &str), String> {
    let prefixes = [("notls:", None), ("btls:", Some(PeerCheck::Never)), ("mtls:", Some(PeerCheck::Always))];
    let given =
        prefixes.iter().find_map(|&(prefix, secure)| Some((prefix, secure, address.strip_prefix(prefix)?)));
    match given {
        None => Ok((default, address)),
        // It is so in any case.
        Some(("notls:", _, rest)) => Ok((None, rest)),
        Some((prefix, ..)) if default.is_none() => Err(format!("`{prefix}` is valid only with -Z")),
        Some((_, secure, rest)) => Ok((secure, rest)),
    }
}

/// The prefix that names a protocol, and what follows it.
fn protocol(address: &str) -> Result<(Option<Protocol>, &str), String> {
    let Some(named) = address.strip_prefix("proto[") else { return Ok((None, address)) };
    let (name, rest) = named.split_once("]:").ok_or("expected `]:` after the protocol")?;
    let protocol = match name {
        "ascii" => Protocol::Ascii,
        "binary" => Protocol::Binary,
        "negotiating" => Protocol::Auto,
        "proxy" => return Err("the proxy is not a mode of the server".to_owned()),
        _ => return Err(format!("expected the protocol ascii, binary or negotiating, found `{name}`")),
    };
    Ok((Some(protocol), rest))
}

/// Tags identify listeners in memcached's proxy; they have no other use.
fn without_tag(address: &str) -> Result<&str, String> {
    let bracketed = address.strip_prefix("tag[").map(|tagged| tagged.split_once("]:"));
    let underlined = address.strip_prefix("tag_").map(|tagged| tagged.split_once("_:"));
    let Some(split) = bracketed.or(underlined) else { return Ok(address) };
    let (tag, rest) = split.ok_or("expected `]:` or `_:` after the tag")?;
    match tag.len() {
        1..=TAG_LEN_MAX => Ok(rest),
        len => Err(format!("expected a tag of 1 to {TAG_LEN_MAX} characters, found {len}")),
    }
}

fn host_and_port(address: &str, port: u16) -> Result<(&str, u16), String> {
    if let Some(bracketed) = address.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']').ok_or("expected `]` after the IPv6 address")?;
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((host, parse_port(digits)?)),
            None if rest.is_empty() => Ok((host, port)),
            None => Err(format!("expected `:port` after the IPv6 address, found `{rest}`")),
        };
    }
    match address.split_once(':') {
        // More than one colon: an IPv6 address without brackets, and so without a port.
        Some((_, rest)) if rest.contains(':') => Ok((address, port)),
        Some((host, digits)) => Ok((host, parse_port(digits)?)),
        None => Ok((address, port)),
    }
}

fn parse_port(digits: &str) -> Result<u16, String> {
    // -1 asks for any port, as with -p.
    let digits = if digits == "-1" { "0" } else { digits };
    digits.parse().map_err(|_| format!("expected a port from 0 to 65535, found `{digits}`"))
}
