//! Roles: what a client may do by the names in its certificate.
//!
//! A file has a rule on each line, `ROLE NAME`; the first rule that fits one of the certificate's names counts. What the
//! commands of a role are is decided by the server.

use crate::certificate::{CertificateName, NameKind};
use std::fmt::Write as _;
use std::sync::Arc;

/// Rules that a file may have. All of them are compared with all names of a certificate in a handshake.
const RULES_MAX: usize = 4096;

/// The longest name of an identity, in bytes: one that is longer is cut. Rules are compared with the whole name.
const IDENTITY_LEN_MAX: usize = 250;

/// What a client may do. Each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Nothing: connect and be told so.
    Nothing,
    /// Read items.
    Read,
    /// Change items.
    Write,
    /// Change the server.
    Admin,
}

impl Role {
    /// The role as the file spells it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// Someone at the other end of a session: its name, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name in the certificate that its role follows from, or its first one, as `dns:…`, `uri:…` or `cn:…`; `-`
    /// without a certificate. Spaces, control characters and everything beyond ASCII are written as `%20`.
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
}

/// The rules of a file.
#[derive(Debug)]
pub(crate) struct RoleRules(Vec<RoleRule>);

#[derive(Debug)]
struct RoleRule {
    role: Role,
    peers: NamedPeers,
}

/// Peers that a rule is about.
#[derive(Debug, PartialEq)]
enum NamedPeers {
    /// All that have a certificate: `*`.
    Certified,
    /// All that have none: `-`.
    Anonymous,
    /// Those with this name.
    Exactly(NameKind, String),
    /// Those with a name that begins so: `uri:spiffe://example/*`.
    Beginning(NameKind, String),
    /// Those with a name that ends so: `dns:*.example`.
    Ending(NameKind, String),
}

impl RoleRules {
    /// Parses a file. The error names the line, what was found and what is accepted.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let rules = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(number, line)| rule(line).map_err(|problem| format!("line {}: {problem}", number + 1)));
        let rules: Vec<_> = rules.collect::<Result<_, _>>()?;
        match rules.len() {
            0 => Err("it has no rules (`ROLE NAME`), so no client may do anything".to_owned()),
            1..=RULES_MAX => Ok(Self(rules)),
            count => Err(format!("it has {count} rules, and {RULES_MAX} is the most")),
        }
    }

    /// The identity of a peer with these names. One that no rule is about may do nothing.
    pub(crate) fn identify(&self, names: &[CertificateName]) -> Identity {
        for rule in &self.0 {
            let named = match &rule.peers {
                NamedPeers::Certified => names.first(),
                peers => names.iter().find(|name| peers.have(name)),
            };
            if named.is_some() || rule.peers == NamedPeers::Certified {
                return Identity { name: displayed(named), role: rule.role };
            }
        }
        Identity { name: displayed(names.first()), role: Role::Nothing }
    }

    /// The identity of a peer without a certificate.
    pub(crate) fn anonymous(&self) -> Identity {
        let rule = self.0.iter().find(|rule| rule.peers == NamedPeers::Anonymous);
        Identity { name: "-".into(), role: rule.map_or(Role::Nothing, |rule| rule.role) }
    }
}

impl NamedPeers {
    fn have(&self, name: &CertificateName) -> bool {
        match self {
            Self::Certified => true,
            Self::Anonymous => false,
            Self::Exactly(kind, text) => *kind == name.kind && name.text == *text,
            Self::Beginning(kind, start) => *kind == name.kind && name.text.starts_with(start),
            Self::Ending(kind, end) => *kind == name.kind && name.text.ends_with(end),
        }
    }
}

/// The name of an identity with this name in its certificate. Reports and logs are lines of words, so that nothing in a
/// name may end a line or a word.
pub(crate) fn displayed(name: Option<&CertificateName>) -> Arc<str> {
    let Some(name) = name else { return "unnamed".into() };
    let mut shown = format!("{}:", name.kind.word());
    for byte in name.text.bytes() {
        if shown.len() + 3 > IDENTITY_LEN_MAX {
            break;
        }
        if byte.is_ascii_graphic() && byte != b'%' {
            shown.push(char::from(byte));
        } else {
            write!(shown, "%{byte:02X}").expect("memory takes all");
        }
    }
    shown.into()
}

fn rule(line: &str) -> Result<RoleRule, String> {
    let (role, name) = line.split_once(char::is_whitespace).ok_or("expected `ROLE NAME`, found one word")?;
    let role = [Role::Nothing, Role::Read, Role::Write, Role::Admin]
        .into_iter()
        .find(|known| known.word() == role)
        .ok_or_else(|| format!("expected the role none, read, write or admin, found `{role}`"))?;
    Ok(RoleRule { role, peers: peers(name.trim())? })
}

fn peers(name: &str) -> Result<NamedPeers, String> {
    match name {
        "*" => return Ok(NamedPeers::Certified),
        "-" => return Ok(NamedPeers::Anonymous),
        _ => {}
    }
    let kinds = [NameKind::Dns, NameKind::Uri, NameKind::CommonName];
    let (word, text) = name.split_once(':').unwrap_or(("", name));
    let kind = kinds
        .into_iter()
        .find(|kind| kind.word() == word)
        .ok_or_else(|| format!("expected `dns:NAME`, `uri:NAME`, `cn:NAME`, `*` or `-`, found `{name}`"))?;
    let text = if kind == NameKind::Dns { text.to_ascii_lowercase() } else { text.to_owned() };
    let (starts, ends) = (text.strip_prefix('*'), text.strip_suffix('*'));
    let (rest, pattern): (_, fn(NameKind, String) -> NamedPeers) = match (starts, ends) {
        (Some(end), None) => (end, NamedPeers::Ending),
        (None, Some(start)) => (start, NamedPeers::Beginning),
        _ => (&*text, NamedPeers::Exactly),
    };
    if rest.is_empty() || rest.contains('*') {
        return Err(format!(
            "expected a name, with `*` at its beginning or its end or nowhere, found `{name}`"
        ));
    }
    Ok(pattern(kind, rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
        # the fleet
        admin cn:admin
        none  uri:spiffe://example/writer/old*
        write uri:spiffe://example/writer/*
        read  dns:*.Clients.example
        read  dns:one.example
        none  -
    ";

    fn named(names: &[&str]) -> Vec<CertificateName> {
        let kinds = [("dns:", NameKind::Dns), ("uri:", NameKind::Uri), ("cn:", NameKind::CommonName)];
        let parsed = names.iter().map(|name| {
            let (word, kind) = kinds.iter().find(|(word, _)| name.starts_with(word)).expect("a kind");
            CertificateName { kind: *kind, text: name[word.len()..].to_owned() }
        });
        parsed.collect()
    }

    #[track_caller]
    fn check(file: &str, names: &[&str], expected: &str) {
        let Identity { name, role } = RoleRules::parse(file).expect("rules").identify(&named(names));
        assert_eq!(format!("{} {name}", role.word()), expected);
    }

    #[test]
    fn the_first_rule_that_fits_a_name_counts() {
        check(FILE, &["cn:admin"], "admin cn:admin");
        check(FILE, &["dns:a.clients.example", "cn:admin"], "admin cn:admin");
        check(FILE, &["uri:spiffe://example/writer/1"], "write uri:spiffe://example/writer/1");
        check(FILE, &["uri:spiffe://example/writer/old-1"], "none uri:spiffe://example/writer/old-1");
        check(FILE, &["dns:other.example", "dns:one.example"], "read dns:one.example");
    }

    #[test]
    fn who_is_in_no_rule_may_do_nothing() {
        check(FILE, &["cn:somebody"], "none cn:somebody");
        check(FILE, &[], "none unnamed");
        check("read *", &["cn:somebody"], "read cn:somebody");
        check("read *", &[], "read unnamed");
        let anonymous = |file| RoleRules::parse(file).expect("rules").anonymous();
        assert_eq!(anonymous("read *").role, Role::Nothing);
        assert_eq!(anonymous("read *\nread -"), Identity { name: "-".into(), role: Role::Read });
    }

    #[test]
    fn a_name_counts_for_its_kind_only() {
        check(FILE, &["dns:admin", "uri:admin"], "none dns:admin");
        check(FILE, &["cn:spiffe://example/writer/1"], "none cn:spiffe://example/writer/1");
        check(FILE, &["dns:clients.example"], "none dns:clients.example");
        check(FILE, &["dns:clients.example.evil.example"], "none dns:clients.example.evil.example");
    }

    #[test]
    fn a_name_cannot_end_a_line_or_a_word() {
        check("read *", &["cn:x\r\nEND 100%"], "read cn:x%0D%0AEND%20100%25");
        let long = format!("cn:{}", "é".repeat(1000));
        let shown = displayed(named(&[&long]).first());
        assert!(shown.len() <= IDENTITY_LEN_MAX && shown.ends_with("%A9"), "{shown}");
    }

    #[test]
    fn a_file_with_a_mistake_is_refused_with_its_line() {
        let check = |file: &str, expected: &str| {
            let error = RoleRules::parse(file).expect_err("an error");
            assert!(error.contains(expected), "{error}");
        };
        check("", "no rules");
        check("# read *", "no rules");
        check("read *\n\nroot cn:x", "line 3: expected the role none, read, write or admin, found `root`");
        check("read", "line 1: expected `ROLE NAME`");
        check("read example", "found `example`");
        check("read ip:127.0.0.1", "found `ip:127.0.0.1`");
        for pattern in ["cn:", "cn:*", "cn:**", "cn:*a*", "cn:a*b"] {
            check(&format!("read {pattern}"), "with `*` at its beginning or its end");
        }
        check(&"read *\n".repeat(RULES_MAX + 1), "4097 rules");
        assert!(RoleRules::parse(&"read *\n".repeat(RULES_MAX)).is_ok());
    }
}
