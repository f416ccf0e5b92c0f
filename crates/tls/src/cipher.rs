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
    /// Those of TLS 1.2 in a list with colons, commas or spaces between them. Those of TLS 1.3 are accepted always, as
    /// with memcached's `ssl_ciphers`.
    ///
    /// # Errors
    /// A clause that names the one that is not supported, and those that are.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut chosen: Vec<_> =
            DEFAULT_CIPHER_SUITES.iter().copied().filter(|suite| suite.tls13().is_some()).collect();
        for name in list.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
            let Some((_, suite)) = SUITES.iter().find(|(known, _)| *known == name) else {
                let known = SUITES.map(|(known, _)| known).join(", ");
                return Err(format!("expected ciphers of TLS 1.2 out of {known}, found `{name}`"));
            };
            if !chosen.contains(suite) {
                chosen.push(*suite);
            }
        }
        Ok(Self(chosen))
    }

    pub(crate) fn suites(&self) -> Vec<SupportedCipherSuite> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_suites_of_tls_1_2_have_a_name() {
        let all = Ciphers::parse(&SUITES.map(|(name, _)| name).join(":")).expect("ciphers");
        assert_eq!(all.suites().len(), DEFAULT_CIPHER_SUITES.len());
    }

    #[test]
    fn a_list_chooses_among_those_of_tls_1_2_only() {
        let names = |list: &str| {
            let suites = Ciphers::parse(list).expect("ciphers").suites();
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
    fn an_unknown_suite_is_an_error_that_names_those_that_are_known() {
        let error = Ciphers::parse("ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA").expect_err("an error");
        assert!(
            error.contains("found `AES128-SHA`") && error.contains("ECDHE-ECDSA-CHACHA20-POLY1305"),
            "{error}"
        );
    }
}
