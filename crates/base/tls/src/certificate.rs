//! X.509 certificates: the names in one, and when it expires.
//!
//! Nothing is verified here. A peer's certificate arrives after rustls has verified its chain, our own from its file.

use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Names of a certificate that are kept. Certificates have a few names, and the cost of a
/// handshake must not follow from a file that an authority has signed without looking.
const NAMES_MAX: usize = 64;

/// What the server needs to know of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CertificateFacts {
    /// The names: those of its extension for names (SAN) in their order, then the common names of its subject.
    pub(crate) names: Vec<CertificateName>,
    /// Whether these are all: there are no more than [`NAMES_MAX`], and each can be read.
    pub(crate) all_names: bool,
    /// The addresses of the extension for names, as many as there are of names. Nobody is identified by one.
    pub(crate) addresses: Vec<IpAddr>,
    /// The first second at which it is valid, since 1970.
    pub(crate) not_before_s: u64,
    /// The last second at which it is valid, since 1970.
    pub(crate) not_after_s: u64,
    /// Whether it is that of an authority, which clients do not accept of a server (CA:TRUE).
    pub(crate) is_authority: bool,
}

/// When a certificate in a file ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateEnd {
    /// The file.
    pub file: PathBuf,
    /// The last second at which it is valid, since 1970.
    pub end_s: u64,
}

impl CertificateEnd {
    /// Of the first certificate of a chain that was read from `file`; `None` if it cannot be told.
    pub(crate) fn of(file: &Path, chain: &[CertificateDer<'_>]) -> Option<CertificateEnd> {
        let facts = facts(chain.first()?)?;
        Some(CertificateEnd { file: file.to_owned(), end_s: facts.not_after_s })
    }
}

/// A name that an authority has put into a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateName {
    pub(crate) kind: NameKind,
    pub(crate) text: String,
}

/// Where in a certificate a name stands. An authority may check one kind and not another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// A host name of the extension for names.
    Dns,
    /// A URI of the extension for names, such as a SPIFFE ID.
    Uri,
    /// A common name of the subject.
    CommonName,
}

impl NameKind {
    /// The kind as the file of roles spells it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Uri => "uri",
            Self::CommonName => "cn",
        }
    }
}

/// Tags of DER (X.690).
pub(crate) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
pub(crate) const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// Tags of the parts of a certificate and of its names (RFC 5280, 4.1 and 4.2.1.6).
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const URI_NAME: u8 = 0x86;
const ADDRESS: u8 = 0x87;

/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// 2.5.29.19.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

const BOOLEAN: u8 = 0x01;

/// Reads a certificate in DER (RFC 5280, 4.1). `None` if it is none.
pub(crate) fn facts(certificate: &[u8]) -> Option<CertificateFacts> {
    let mut certificate = Der(Der(certificate).expect(SEQUENCE)?);
    let mut body = Der(certificate.expect(SEQUENCE)?);
    body.skip_if(VERSION);
    for part in [INTEGER, SEQUENCE, SEQUENCE] {
        body.expect(part)?; // serial number, algorithm of the signature, issuer
    }
    let mut validity = Der(body.expect(SEQUENCE)?);
    let mut bound = || validity.next().and_then(|(kind, time)| seconds(kind, time));
    let (not_before_s, not_after_s) = (bound()?, bound()?);
    let subject = body.expect(SEQUENCE)?;
    let mut names = Names { kept: Vec::new(), are_all: true, addresses: Vec::new() };
    let is_authority = is_authority(Der(body.0)) == Some(true);
    // What is no extension for names, or no subject, ends the search.
    let _ends = alternative_names(body, &mut names);
    let _ends = subject_names(subject, &mut names);
    let Names { kept: names, are_all: all_names, addresses } = names;
    Some(CertificateFacts { names, all_names, addresses, not_before_s, not_after_s, is_authority })
}

struct Names {
    kept: Vec<CertificateName>,
    are_all: bool,
    addresses: Vec<IpAddr>,
}

impl Names {
    fn add(&mut self, name: Option<CertificateName>) {
        match name {
            Some(name) if self.kept.len() < NAMES_MAX => self.kept.push(name),
            _ => self.are_all = false,
        }
    }

    fn add_address(&mut self, bytes: &[u8]) {
        let four = <[u8; 4]>::try_from(bytes).map(|bytes| IpAddr::from(Ipv4Addr::from(bytes)));
        let address = four.or(<[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::from(Ipv6Addr::from(bytes))));
        if self.addresses.len() < NAMES_MAX {
            self.addresses.extend(address.ok());
        }
    }
}

/// The value of an extension, if there is one of this kind in what follows the subject.
fn extension<'d>(mut rest: Der<'d>, kind: &[u8]) -> Option<Der<'d>> {
    let mut extensions = loop {
        match rest.next()? {
            (EXTENSIONS, wrapped) => break Der(Der(wrapped).expect(SEQUENCE)?),
            _ => continue,
        }
    };
    while let Some(extension) = extensions.expect(SEQUENCE) {
        let mut extension = Der(extension);
        if extension.expect(OBJECT_IDENTIFIER)? != kind {
            continue;
        }
        loop {
            match extension.next()? {
                (OCTET_STRING, value) => return Some(Der(Der(value).expect(SEQUENCE)?)),
                _ => continue, // whether it is critical
            }
        }
    }
    None
}

/// Whether its first constraint says so; without one it is no authority (RFC 5280, 4.2.1.9).
fn is_authority(rest: Der<'_>) -> Option<bool> {
    let (tag, value) = extension(rest, BASIC_CONSTRAINTS)?.next()?;
    Some(tag == BOOLEAN && value.iter().any(|byte| *byte != 0))
}

/// Adds the names of kinds that we know in the extension for names.
fn alternative_names(rest: Der<'_>, found: &mut Names) -> Option<()> {
    let mut names = extension(rest, SUBJECT_ALT_NAME)?;
    while let Some((tag, text)) = names.next() {
        match tag {
            DNS_NAME => found.add(name(NameKind::Dns, text)),
            URI_NAME => found.add(name(NameKind::Uri, text)),
            ADDRESS => found.add_address(text),
            _ => {}
        }
    }
    Some(())
}

/// Adds the common names in a subject. Those in letters that are neither ASCII nor UTF-8 cannot be read.
fn subject_names(subject: &[u8], found: &mut Names) -> Option<()> {
    let mut sets = Der(subject);
    while let Some(set) = sets.expect(SET) {
        let mut set = Der(set);
        while let Some(attribute) = set.expect(SEQUENCE) {
            let mut attribute = Der(attribute);
            let is_common_name = attribute.expect(OBJECT_IDENTIFIER)? == COMMON_NAME;
            let (tag, text) = attribute.next()?;
            if is_common_name {
                let can_be_read = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING].contains(&tag);
                found.add(if can_be_read { name(NameKind::CommonName, text) } else { None });
            }
        }
    }
    Some(())
}

fn name(kind: NameKind, text: &[u8]) -> Option<CertificateName> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.is_empty())?;
    // Host names have no case.
    let text = if kind == NameKind::Dns { text.to_ascii_lowercase() } else { text.to_owned() };
    Some(CertificateName { kind, text })
}

/// Elements of DER that follow each other.
pub(crate) struct Der<'d>(pub(crate) &'d [u8]);

impl<'d> Der<'d> {
    /// Tag and content of the next element. `None` at the end, and if it is cut.
    pub(crate) fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let (&[tag, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match length {
            0..=0x7f => (usize::from(length), rest),
            0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
                (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
            }
            // Longer than any certificate.
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next element, which has this tag.
    pub(crate) fn expect(&mut self, expected: u8) -> Option<&'d [u8]> {
        self.next().filter(|(tag, _)| *tag == expected).map(|(_, content)| content)
    }

    fn skip_if(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }
}

/// The second since 1970 that a time in a certificate is (RFC 5280, 4.1.2.5): `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`. A
/// time before 1970 is 0.
fn seconds(kind: u8, text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = match kind {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year = number(year)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    let parts: Vec<i64> = rest.chunks(2).map(number).collect::<Option<_>>()?;
    let [month @ 1..=12, day @ 1..=31, hour, minute, second] = parts[..] else { return None };
    let seconds = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some(u64::try_from(seconds).unwrap_or(0))
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|digit| digit.is_ascii_digit()))?
        .parse()
        .ok()
}

/// Days of the Gregorian calendar. The year is counted from March, so that a leap day is its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days_before_month = (153 * month + 2) / 5;
    year * 365 + leap_days + days_before_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::certificates;
    use std::path::Path;

    fn tests_certificate(name: &str) -> Vec<u8> {
        let path = format!("{}/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"));
        certificates(Path::new(&path)).expect("a certificate")[0].to_vec()
    }

    #[track_caller]
    fn check(file: &str, expected: &[(NameKind, &str)]) {
        let found = facts(&tests_certificate(file)).expect("a certificate");
        let names: Vec<_> = found.names.iter().map(|name| (name.kind, &*name.text)).collect();
        assert_eq!(names, expected);
        assert_eq!(found.not_after_s, 4_922_899_200, "1 January 2126");
    }

    #[test]
    fn names_are_those_of_the_extension_and_then_that_of_the_subject() {
        use NameKind::{CommonName, Dns, Uri};
        check("reader.pem", &[(Dns, "reader.clients.example"), (CommonName, "some reader")]);
        check("writer.pem", &[(Uri, "spiffe://example/writer/1")]);
        check("admin.pem", &[(CommonName, "admin")]);
        check("server.pem", &[(Dns, "localhost"), (Dns, "cache.example"), (CommonName, "server")]);
    }

    #[test]
    fn more_names_than_are_kept_and_names_that_cannot_be_read_are_noticed() {
        let with = |names: &[Option<&str>]| {
            let mut found = Names { kept: Vec::new(), are_all: true, addresses: Vec::new() };
            names
                .iter()
                .for_each(|text| found.add(text.and_then(|text| name(NameKind::Dns, text.as_bytes()))));
            (found.kept.len(), found.are_all)
        };
        assert_eq!(with(&[Some("a"), Some("b")]), (2, true));
        assert_eq!(with(&[Some("a"), None]), (1, false));
        assert_eq!(with(&[Some("a"); NAMES_MAX]), (NAMES_MAX, true));
        assert_eq!(with(&[Some("a"); NAMES_MAX + 1]), (NAMES_MAX, false));
        // BMPString, as old authorities write it: a SET of a SEQUENCE with the kind and the text.
        let subject =
            [&[SET, 11, SEQUENCE, 9, OBJECT_IDENTIFIER, 3], COMMON_NAME, &[0x1e, 2, 0, b'x']].concat();
        let mut found = Names { kept: Vec::new(), are_all: true, addresses: Vec::new() };
        assert_eq!((subject_names(&subject, &mut found), found.are_all), (Some(()), false));
    }

    #[test]
    fn a_certificate_that_is_cut_or_damaged_does_no_harm() {
        let whole = tests_certificate("server.pem");
        for end in 0..whole.len() {
            assert_eq!(facts(&whole[..end]), None, "cut at {end}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let _ = facts(&damaged);
            }
        }
    }

    #[test]
    fn times_are_seconds_since_1970() {
        let check =
            |kind, text: &str, expected| assert_eq!(seconds(kind, text.as_bytes()), expected, "{text}");
        check(UTC_TIME, "700101000000Z", Some(0));
        check(UTC_TIME, "000229120000Z", Some(951_825_600));
        check(UTC_TIME, "491231235959Z", Some(2_524_607_999));
        check(UTC_TIME, "500101000000Z", Some(0)); // 1950
        check(GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000));
        check(GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799));
        for damaged in
            ["", "Z", "7001010000Z", "700101000000", "701301000000Z", "7001010000-1Z", "70010100000éZ"]
        {
            check(UTC_TIME, damaged, None);
        }
    }
}
