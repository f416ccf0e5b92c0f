//! Encryption parameters of a URL: sslmode, sslrootcert, sslcert and sslkey.
//!
//! Of libpq's modes there are the two that mean the same to everybody: nothing is encrypted, or the server proves who it
//! is. What lies between (`prefer`, `require`, `verify-ca`) is encrypted for whoever answers, or may not be encrypted at
//! all, and each would need a verifier of our own beside rustls'. The crate `postgres` knows a part of sslmode and nothing
//! of the others, so they are taken out of the URL before it reads the rest.

use percent_encoding::percent_decode_str;
use postgres::config::SslMode;
use std::error::Error;
use std::path::{Path, PathBuf};
use tls::Trust;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The words that are read here.
const OURS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// How to connect.
#[derive(Debug, PartialEq)]
pub(super) enum Encryption {
    /// `disable`: in plain.
    None,
    /// `verify-full`: with a server whose certificate is signed by an authority, for the name in the URL.
    Full {
        /// Who signs it; `None`: those that this system trusts.
        roots: Option<PathBuf>,
        /// What this client shows of itself: its certificate and the key to it.
        own: Option<(PathBuf, PathBuf)>,
    },
}

/// Why what a URL asks for cannot be had.
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
        let refused = |what: String, hint| Err(Refusal { what, hint });
        match word("sslmode") {
            None | Some("verify-full") => {}
            // Whoever names an authority or a key wants encryption.
            Some("disable") => match OURS[1..].iter().find(|name| path(name).is_some()) {
                Some(name) => {
                    return refused(format!("{name} has no meaning with sslmode=disable"), Some(MODES));
                }
                None => return Ok(Encryption::None),
            },
            Some(mode) => return refused(format!("there is no sslmode={mode}"), Some(MODES)),
        }
        let own = match (path("sslcert"), path("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return refused("of sslcert and sslkey there is only one".to_owned(), None),
        };
        let roots = path("sslrootcert").filter(|roots| roots != Path::new("system"));
        Ok(Encryption::Full { roots, own })
    }

    /// What `postgres` knows of it: whether to ask for encryption. It never goes on without.
    pub(super) fn mode(&self) -> SslMode {
        match self {
            Encryption::None => SslMode::Disable,
            Encryption::Full { .. } => SslMode::Require,
        }
    }

    /// What encrypts; `None`: nothing is to be encrypted.
    pub(super) fn connector(&self) -> Result<Option<MakeRustlsConnect>, Box<dyn Error + Send + Sync>> {
        let Encryption::Full { roots, own } = self else { return Ok(None) };
        let roots = roots.as_deref().unwrap_or_else(|| tls::system_authorities());
        let builder = tls::client(Trust::Authorities(roots))?;
        let mut config = match own {
            Some((certificate, key)) => {
                builder.with_client_auth_cert(tls::certificates(certificate)?, tls::key(key)?)?
            }
            None => builder.with_no_client_auth(),
        };
        // As libpq says it since 17; a server that is reached with sslnegotiation=direct wants to hear it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Some(MakeRustlsConnect::new(config)))
    }
}

const MODES: &str = "sslmode=disable (in plain) and sslmode=verify-full (the server proves who it is, with a certificate \
                     that sslrootcert=FILE has signed, or one that this system trusts) are accepted";

/// What helps where the server's certificate cannot be trusted.
pub(super) const AUTHORITY: &str = "sslrootcert=FILE is the certificate (PEM) of the authority that has signed the server's, \
                                    which whoever runs the server has; without it, those that this system trusts count";

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
            "postgres://db/lab?sslmode=disable&connect_timeout=3&sslrootcert=%2Fetc%2Fa%20b.pem",
            &[("sslmode", "disable"), ("sslrootcert", "/etc/a b.pem")],
            "postgres://db/lab?connect_timeout=3",
        );
        check("postgres://a:why?@db?sslmode=disable", &[("sslmode", "disable")], "postgres://a:why?@db");
        check("postgres:///lab?sslcert=a@b", &[("sslcert", "a@b")], "postgres:///lab");
        check(
            "postgres://db?application_name=why?&sslmode=disable",
            &[("sslmode", "disable")],
            "postgres://db?application_name=why?",
        );
        check("postgres://db?ssl%6Dode=disable", &[("sslmode", "disable")], "postgres://db");
    }

    fn parse(words: &str) -> Result<Encryption, Refusal> {
        Encryption::parse(&split(&format!("postgres://db/lab?{words}")).0)
    }

    #[test]
    fn the_server_proves_who_it_is_unless_nothing_is_encrypted() {
        let full = |roots: Option<&str>| Ok(Encryption::Full { roots: roots.map(PathBuf::from), own: None });
        assert_eq!(parse("sslmode=verify-full&sslmode=disable"), Ok(Encryption::None));
        assert_eq!(parse(""), full(None));
        assert_eq!(parse("sslmode=verify-full&sslrootcert=system"), full(None));
        assert_eq!(parse("sslrootcert=ca.pem"), full(Some("ca.pem")));
        let own = Some(("c.pem".into(), "k.pem".into()));
        assert_eq!(parse("sslcert=c.pem&sslkey=k.pem"), Ok(Encryption::Full { roots: None, own }));
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_what_can() {
        for mode in ["allow", "prefer", "require", "verify-ca", ""] {
            let refused = parse(&format!("sslmode={mode}&sslrootcert=ca.pem")).expect_err(mode);
            assert_eq!(refused.what, format!("there is no sslmode={mode}"));
            let hint = refused.hint.expect("what is accepted");
            assert!(hint.contains("sslmode=disable") && hint.contains("sslmode=verify-full"), "{hint}");
        }
        let refused = |words: &str| parse(words).expect_err(words).what;
        assert_eq!(refused("sslcert=c.pem"), "of sslcert and sslkey there is only one");
        let contradiction = refused("sslmode=disable&sslrootcert=ca.pem");
        assert_eq!(contradiction, "sslrootcert has no meaning with sslmode=disable");
    }
}
