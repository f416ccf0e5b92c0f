//! Cipher suites of TLS 1.2, by the names of OpenSSL.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::{DEFAULT_CIPHER_SUITES, cipher_suite};

/// What rustls has of TLS 1.2, in its order of preference.
const SUITES: [(&str, SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// The suites that a server accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Ciphers(Vec<SupportedCipherSuite>);

impl Default for Ciphers {
    fn default() -> Self {
        Self(DEFAULT_CIPHER_SUITES.to_vec())
    }
}

impl Ciphers {
    /// Those of TLS 1.2 in a list with colons, commas or spaces between them. As with OpenSSL, names that are not known are left out:
    /// a list may be for several versions of it. If none is known, for it may have groups only (`HIGH`), all are accepted. Those of TLS
    /// 1.3 are accepted always, as with memcached's `ssl_ciphers`.
    pub fn parse(list: &str) -> Self {
        let is_excluded = |name: &str| names(list).any(|other| other.strip_prefix(['!', '-']) == Some(name));
        let named: Vec<_> = names(list).filter_map(suite).collect();
        let tls12 = SUITES.iter().filter(|(name, _)| !is_excluded(name)).map(|(_, suite)| *suite);
        let mut chosen: Vec<_> =
            DEFAULT_CIPHER_SUITES.iter().copied().filter(|suite| suite.tls13().is_some()).collect();
        let wanted = if named.is_empty() && !list.is_empty() { tls12.collect() } else { named };
        for suite in wanted {
            if !chosen.contains(&suite) {
                chosen.push(suite);
            }
        }
        Self(chosen)
    }

    /// What of such a list is left out: a sentence for the operator.
    pub fn left_out(list: &str) -> Option<String> {
        let is_known = |name: &str| suite(name.trim_start_matches(['!', '-'])).is_some();
        let unknown: Vec<_> =
            names(list).filter(|name| !is_known(name)).map(|name| format!("`{name}`")).collect();
        if unknown.is_empty() {
            return None;
        }
        let known = SUITES.map(|(known, _)| known).join(", ");
        let effect = match names(list).any(|name| suite(name).is_some()) {
            true => "the others are accepted",
            false => "all that are supported are accepted",
        };
        let unknown = unknown.join(", ");
        Some(format!("{unknown}: not among the ciphers of TLS 1.2 that are supported ({known}); {effect}"))
    }

    pub(crate) fn suites(&self) -> Vec<SupportedCipherSuite> {
        self.0.clone()
    }
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', ' ']).filter(|name| !name.is_empty())
}

fn suite(name: &str) -> Option<SupportedCipherSuite> {
    SUITES.iter().find(|(known, _)| *known == name).map(|(_, suite)| *suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_suites_of_tls_1_2_have_a_name() {
        let all = Ciphers::parse(&SUITES.map(|(name, _)| name).join(":"));
        assert_eq!(all.suites().len(), DEFAULT_CIPHER_SUITES.len());
    }

    #[test]
    fn a_list_chooses_among_those_of_tls_1_2_only() {
        let names = |list: &str| {
            let suites = Ciphers::parse(list).suites();
            suites.iter().map(|suite| format!("{:?}", suite.suite())).collect::<Vec<_>>().join(" ")
        };
        let tls13 = "TLS13_AES_256_GCM_SHA384 TLS13_AES_128_GCM_SHA256 TLS13_CHACHA20_POLY1305_SHA256";
        assert_eq!(names(""), tls13);
        assert_eq!(
            names("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256"),
            format!("{tls13} TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
        );
    }

    #[test]
    fn unknown_suites_are_left_out_and_named() {
        let one = Ciphers::parse("ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!(Ciphers::parse("ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA:!MD5"), one);
        assert_eq!(Ciphers::parse("HIGH:!aNULL").suites().len(), DEFAULT_CIPHER_SUITES.len());
        let less = Ciphers::parse("HIGH:!ECDHE-RSA-AES128-GCM-SHA256").suites();
        assert_eq!(less.len(), DEFAULT_CIPHER_SUITES.len() - 1);
        assert_eq!(Ciphers::left_out("ECDHE-RSA-AES128-GCM-SHA256:!ECDHE-RSA-CHACHA20-POLY1305"), None);
        let some = Ciphers::left_out("ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA").expect("a line");
        assert!(
            some.starts_with("`AES128-SHA`: not among") && some.ends_with("the others are accepted"),
            "{some}"
        );
        let all = Ciphers::left_out("HIGH:!MD5").expect("a line");
        assert!(
            all.starts_with("`HIGH`, `!MD5`: ") && all.ends_with("all that are supported are accepted"),
            "{all}"
        );
    }
}
