//! What a URL says about encryption, in libpq's words: sslmode, sslrootcert, sslcert and sslkey.
//!
//! The crate `postgres` knows a part of sslmode and nothing of the others, so they are taken out of the URL before it
//! reads the rest.

use super::trust::{Roots, Trust, own_certificate};
use percent_encoding::percent_decode_str;
use postgres::config::SslMode;
use rustls::ClientConfig;
use rustls::crypto::ring;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The words that are read here.
const OURS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// How to connect.
#[derive(Debug, PartialEq)]
pub(super) struct Encryption {
    mode: Mode,
    roots: Option<Roots>,
    /// What this client shows of itself: its certificate and the key to it.
    own: Option<(PathBuf, PathBuf)>,
}

/// Each asks for more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Why what a URL asks for makes no sense.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) what: String,
    pub(super) hint: Option<&'static str>,
}

/// The words of a URL that are about encryption, and the URL without them.
pub(super) fn split(url: &str) -> (Vec<(String, String)>, String) {
    let Some(question) = question(url) else { return (Vec::new(), url.to_owned()) };
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for pair in url[question + 1..].split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name);
        if OURS.contains(&&*name) {
            ours.push((name, decoded(value)));
        } else {
            others.push(pair);
        }
    }
    let mark = if others.is_empty() { "" } else { "?" };
    (ours, format!("{}{mark}{}", &url[..question], others.join("&")))
}

/// Where the parameters of a URL begin. As with libpq, a password may hold a question mark, and nothing a slash.
fn question(url: &str) -> Option<usize> {
    let authority = url.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = url[authority..].find(['@', '/']).map(|end| authority + end);
    let from = end.filter(|end| url[*end..].starts_with('@')).unwrap_or(authority);
    url[from..].find('?').map(|question| from + question)
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl Encryption {
    /// Of a word that is there twice, the last one counts.
    pub(super) fn parse(words: &[(String, String)]) -> Result<Encryption, Refusal> {
        let word =
            |name| words.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let path = |name| word(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let roots = word("sslrootcert").filter(|roots| !roots.is_empty()).map(Roots::parse);
        let mode = match word("sslmode") {
            None if roots == Some(Roots::System) => Mode::VerifyFull,
            None => Mode::Prefer,
            Some(word) => Mode::parse(word).ok_or_else(|| Refusal {
                what: format!("there is no sslmode={word}"),
                hint: Some("it is disable, prefer, require, verify-ca or verify-full"),
            })?,
        };
        let refused = |what: &str, hint| Err(Refusal { what: what.to_owned(), hint });
        // Anybody can have a certificate of a public authority, for a name of their own.
        if roots == Some(Roots::System) && mode != Mode::VerifyFull {
            return refused("sslrootcert=system asks for sslmode=verify-full", None);
        }
        if mode >= Mode::VerifyCa && roots.is_none() {
            return refused("its sslmode asks for an authority that signs its certificate", Some(AUTHORITY));
        }
        let own = match (path("sslcert"), path("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return refused("of sslcert and sslkey there is only one", None),
        };
        Ok(Encryption { mode, roots, own })
    }

    /// Of a socket in the file system: nobody is between, and the server offers no encryption there.
    pub(super) fn none() -> Encryption {
        Encryption { mode: Mode::Disable, roots: None, own: None }
    }

    /// What `postgres` knows of it: whether to ask for encryption, and whether to go on without.
    pub(super) fn mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// What encrypts; `None`: nothing is to be encrypted.
    pub(super) fn connector(&self) -> Result<Option<MakeRustlsConnect>, Box<dyn Error + Send + Sync>> {
        if self.mode == Mode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(ring::default_provider());
        let roots = self.roots.as_ref().map(Roots::read).transpose()?;
        let trust = Trust::new(roots, self.mode == Mode::VerifyFull, &provider);
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(trust));
        let mut config = match &self.own {
            Some((certificate, key)) => {
                let (chain, key) = own_certificate(certificate, key)?;
                builder.with_client_auth_cert(chain, key)?
            }
            None => builder.with_no_client_auth(),
        };
        // As libpq says it since 17; a server that is reached with sslnegotiation=direct wants to hear it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Some(MakeRustlsConnect::new(config)))
    }
}

impl Mode {
    fn parse(word: &str) -> Option<Mode> {
        Some(match word {
            "disable" => Mode::Disable,
            "prefer" => Mode::Prefer,
            "require" => Mode::Require,
            "verify-ca" => Mode::VerifyCa,
            "verify-full" => Mode::VerifyFull,
            _ => return None,
        })
    }
}

/// What helps where the server's certificate cannot be trusted.
pub(super) const AUTHORITY: &str = "sslrootcert=FILE is the certificate (PEM) of the authority that has signed the server's, \
                                    which whoever runs the server has; sslrootcert=system are those that this system trusts";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, ours: &[(&str, &str)], rest: &str) {
        let (found, without) = split(url);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!((&*found, &*without), (ours, rest));
    }

    #[test]
    fn the_words_are_taken_out_of_a_url() {
        check("postgres://db/lab", &[], "postgres://db/lab");
        check(
            "postgres://db/lab?sslmode=require&connect_timeout=3&sslrootcert=%2Fetc%2Fa%20b.pem",
            &[("sslmode", "require"), ("sslrootcert", "/etc/a b.pem")],
            "postgres://db/lab?connect_timeout=3",
        );
        check("postgres://a:why?@db?sslmode=disable", &[("sslmode", "disable")], "postgres://a:why?@db");
        check("postgres:///lab?sslcert=a@b", &[("sslcert", "a@b")], "postgres:///lab");
        check(
            "postgres://db?application_name=why?&sslmode=disable",
            &[("sslmode", "disable")],
            "postgres://db?application_name=why?",
        );
        check("postgres://db?ssl%6Dode=prefer", &[("sslmode", "prefer")], "postgres://db");
    }

    fn parse(words: &str) -> Result<Encryption, String> {
        let (ours, _) = split(&format!("postgres://db/lab?{words}"));
        Encryption::parse(&ours).map_err(|refusal| refusal.what)
    }

    #[test]
    fn they_mean_what_they_mean_to_libpq() {
        let mode = |words| parse(words).expect(words).mode;
        assert_eq!(mode(""), Mode::Prefer);
        assert_eq!(mode("sslmode=require&sslmode=disable"), Mode::Disable);
        assert_eq!(mode("sslrootcert=system"), Mode::VerifyFull);
        assert_eq!(mode("sslmode=verify-ca&sslrootcert=ca.pem"), Mode::VerifyCa);
        let own = parse("sslcert=c.pem&sslkey=k.pem").expect("both").own;
        assert_eq!(own, Some(("c.pem".into(), "k.pem".into())));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |words: &str| parse(words).expect_err(words);
        assert_eq!(refused("sslmode=allow"), "there is no sslmode=allow");
        for mode in ["verify-ca", "verify-full"] {
            assert!(refused(&format!("sslmode={mode}")).starts_with("its sslmode asks for an authority"));
        }
        for mode in ["require", "verify-ca"] {
            let words = format!("sslmode={mode}&sslrootcert=system");
            assert_eq!(refused(&words), "sslrootcert=system asks for sslmode=verify-full");
        }
        assert_eq!(refused("sslcert=c.pem"), "of sslcert and sslkey there is only one");
    }
}
