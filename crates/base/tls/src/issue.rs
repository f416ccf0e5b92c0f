//! An authority that is kept, and the certificates that it signs.
//!
//! A key stays where it was made: whoever needs a certificate sends a [`CertificateRequest`].

pub(super) mod request;
pub(super) mod run_certificates;
pub(super) mod signing_key;

use crate::certificate::{Der, INTEGER, SEQUENCE, facts};
use crate::files::{TlsFileError, certificates, key, unusable};
use crate::issue::request::CertificateRequest;
use crate::issue::signing_key::{P256Key, failed, key_identifier, pem, serial_number};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyIdMethod, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, date_time_ymd,
};
use ring::rand::SystemRandom;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The seconds in which a certificate is valid, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first one.
    pub not_before_s: u64,
    /// The last one.
    pub not_after_s: u64,
}

/// An owner of a certificate, as the authority says it.
#[derive(Clone, Copy, Debug)]
pub struct IssuedFor<'a> {
    /// The common name, for people.
    pub common_name: &'a str,
    /// The name that programs decide by.
    pub uri: &'a str,
    /// Host names and addresses of one that serves; none for one that is a client only.
    pub hosts: &'a [String],
    /// Whether it serves: otherwise the certificate is no server's, whatever its names.
    pub serves: bool,
    /// When it is valid.
    pub validity: Validity,
}

/// An authority with its key. It signs certificates of owners, never of other authorities.
pub struct SigningAuthority {
    name: String,
    parameters: CertificateParams,
    key: P256Key,
    certificate: Vec<u8>,
    validity: Validity,
    random: SystemRandom,
}

/// A private key for a certificate, made where it is used.
pub struct CertificateKey(P256Key);

impl CertificateKey {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> io::Result<CertificateKey> {
        P256Key::new(&SystemRandom::new()).map(CertificateKey)
    }

    /// The key in PEM, for a file that nobody else is to read.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A request for a certificate, in PEM. It names nobody: the authority decides the names.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn request(&self) -> io::Result<String> {
        let mut nameless = CertificateParams::default();
        nameless.distinguished_name = DistinguishedName::new();
        nameless.key_identifier_method = KeyIdMethod::PreSpecified(key_identifier(self.0.public()));
        let request = nameless.serialize_request(&self.0).map_err(failed)?;
        Ok(pem("CERTIFICATE REQUEST", request.der()))
    }
}

impl SigningAuthority {
    /// A new authority with this common name.
    ///
    /// # Errors
    /// If the name cannot be in a certificate, or the system has no random numbers.
    pub fn new(common_name: &str, validity: Validity) -> io::Result<SigningAuthority> {
        let random = SystemRandom::new();
        let key = P256Key::new(&random)?;
        let parameters = authority_parameters(common_name, validity, &key, &random)?;
        let certificate = parameters.self_signed(&key).map_err(failed)?.der().to_vec();
        Ok(SigningAuthority { name: common_name.to_owned(), parameters, key, certificate, validity, random })
    }

    /// The authority in two files, as written from [`Self::certificate_pem`] and [`Self::key_pem`].
    ///
    /// # Errors
    /// If one cannot be used, or is no such file.
    pub fn load(certificate_path: &Path, key_path: &Path) -> Result<SigningAuthority, TlsFileError> {
        let random = SystemRandom::new();
        let certificate = certificates(certificate_path)?.swap_remove(0).to_vec();
        let key = P256Key::from_pkcs8(key(key_path)?.secret_der(), &random)
            .ok_or_else(|| unusable(key_path, "expected a key on P-256 (PKCS #8), found another kind"))?;
        let no_authority =
            || unusable(certificate_path, "it is not the certificate of an authority made here");
        let facts = facts(&certificate).ok_or_else(no_authority)?;
        let [name] = &facts.names[..] else { return Err(no_authority()) };
        let validity = Validity { not_before_s: facts.not_before_s, not_after_s: facts.not_after_s };
        let again = |source| TlsFileError { path: certificate_path.to_owned(), source };
        let parameters = authority_parameters(&name.text, validity, &key, &random).map_err(again)?;
        let rebuilt = parameters.self_signed(&key).map_err(|error| again(failed(error)))?;
        // A certificate that it signs must name its issuer as the file names its subject, byte for byte.
        match (subject_and_key(&certificate), subject_and_key(rebuilt.der())) {
            (Some((subject, own)), Some((ours, signing))) if subject == ours && own == signing => {}
            (Some((subject, _)), Some((ours, _))) if subject == ours => {
                let other = format!("it is not the key of the certificate in {}", certificate_path.display());
                return Err(unusable(key_path, &other));
            }
            _ => return Err(no_authority()),
        }
        let name = name.text.clone();
        Ok(SigningAuthority { name, parameters, key, certificate, validity, random })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The certificate, for all who are to trust what it signs.
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The key, for a file that nobody else is to read.
    pub fn key_pem(&self) -> String {
        self.key.pem()
    }

    /// When its own certificate is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether a certificate (DER) is one that this authority has signed, at whatever time it is valid.
    pub fn has_signed(&self, certificate: &CertificateDer<'_>) -> bool {
        let Some(begin_s) = facts(certificate).map(|facts| facts.not_before_s) else { return false };
        let mut roots = RootCertStore::empty();
        if roots.add(CertificateDer::from(self.certificate.clone())).is_err() {
            return false;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let begin = UnixTime::since_unix_epoch(Duration::from_secs(begin_s));
        verifier.is_ok_and(|verifier| verifier.verify_client_cert(certificate, &[], begin).is_ok())
    }

    /// A certificate in PEM for the key of a request. It ends with the authority at the latest.
    ///
    /// # Errors
    /// If a name cannot be in a certificate, or the system has no random numbers.
    pub fn sign(&self, request: &CertificateRequest, owner: &IssuedFor<'_>) -> io::Result<String> {
        let mut leaf = CertificateParams::new(owner.hosts.to_vec()).map_err(failed)?;
        let uri = Ia5String::try_from(owner.uri).map_err(failed)?;
        leaf.subject_alt_names.push(SanType::URI(uri));
        let until_s = owner.validity.not_after_s.min(self.validity.not_after_s);
        let validity = Validity { not_after_s: until_s, ..owner.validity };
        dress(&mut leaf, owner.common_name, validity, request, &self.random)?;
        leaf.is_ca = IsCa::ExplicitNoCa;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if owner.serves {
            leaf.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        leaf.use_authority_key_identifier_extension = true;
        let issuer = Issuer::from_params(&self.parameters, &self.key);
        let signed = leaf.signed_by(request, &issuer).map_err(failed)?;
        Ok(pem("CERTIFICATE", signed.der()))
    }
}

fn authority_parameters(
    common_name: &str,
    validity: Validity,
    key: &P256Key,
    random: &SystemRandom,
) -> io::Result<CertificateParams> {
    let mut authority = CertificateParams::default();
    dress(&mut authority, common_name, validity, key, random)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(authority)
}

/// Adds what every certificate has.
fn dress(
    parameters: &mut CertificateParams,
    common_name: &str,
    validity: Validity,
    key: &impl PublicKeyData,
    random: &SystemRandom,
) -> io::Result<()> {
    let epoch = date_time_ymd(1970, 1, 1);
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    parameters.not_before = epoch + Duration::from_secs(validity.not_before_s);
    parameters.not_after = epoch + Duration::from_secs(validity.not_after_s);
    parameters.serial_number = Some(SerialNumber::from_slice(&serial_number(random)?));
    parameters.key_identifier_method = KeyIdMethod::PreSpecified(key_identifier(key.der_bytes()));
    Ok(())
}

/// Subject and public key of a certificate, in DER.
fn subject_and_key(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut certificate = Der(Der(certificate).expect(SEQUENCE)?);
    let mut body = Der(certificate.expect(SEQUENCE)?);
    body.next()?; // version: all of ours have one
    for part in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE] {
        body.expect(part)?; // serial number, algorithm of the signature, issuer, validity
    }
    Some((body.expect(SEQUENCE)?, body.expect(SEQUENCE)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate_uris;
    use crate::testing::{Scratch, tests_file};

    const NOON_S: u64 = 1_800_000_000;
    const DAY: Validity = Validity { not_before_s: NOON_S, not_after_s: NOON_S + 86_400 };

    fn authority(name: &str) -> SigningAuthority {
        SigningAuthority::new(name, DAY).expect("an authority")
    }

    fn request() -> CertificateRequest {
        let key = CertificateKey::new().expect("a key");
        CertificateRequest::parse(&key.request().expect("a request")).expect("a request")
    }

    fn owner(hosts: &[String]) -> IssuedFor<'_> {
        IssuedFor { common_name: "x", uri: "test://x", hosts, serves: true, validity: DAY }
    }

    #[test]
    fn a_certificate_names_its_hosts_and_only_its_authority_has_signed_it() {
        let scratch = Scratch::new();
        let (signing, other) = (authority("a"), authority("a"));
        let hosts = ["c1.example", "10.0.0.1", "2001:db8::1"].map(str::to_owned);
        let pem = signing.sign(&request(), &owner(&hosts)).expect("one");
        let der = certificates(&scratch.file("leaf.pem", pem)).expect("a certificate").swap_remove(0);
        assert_eq!(certificate_uris(&der).expect("a certificate").hosts, hosts);
        assert!(signing.has_signed(&der));
        assert!(!other.has_signed(&der), "another key of the same name");
        assert!(!signing.has_signed(&b"nothing"[..].into()));
    }

    #[test]
    fn a_certificate_has_the_uri_and_the_validity_that_were_asked_for() {
        let scratch = Scratch::new();
        let check = |until_s, expected_s| {
            let validity = Validity { not_before_s: NOON_S + 7, not_after_s: until_s };
            let pem = authority("a").sign(&request(), &IssuedFor { validity, ..owner(&[]) }).expect("one");
            let der = certificates(&scratch.file("leaf.pem", pem)).expect("a certificate");
            let found = certificate_uris(&der[0]).expect("a certificate");
            assert_eq!((&found.uris[..], found.all_read), (&["test://x".to_owned()][..], true));
            assert_eq!((found.not_before_s, found.not_after_s), (NOON_S + 7, expected_s));
        };
        check(NOON_S + 100, NOON_S + 100);
        // Not longer than the authority.
        check(NOON_S + 100_000, DAY.not_after_s);
    }

    #[test]
    fn a_name_that_cannot_be_in_a_certificate_is_refused() {
        let refused = |hosts: &[&str], uri| {
            let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
            authority("a").sign(&request(), &IssuedFor { uri, ..owner(&hosts) }).is_err()
        };
        assert!(refused(&["näme"], "test://x") && refused(&[], "test://ä"));
        assert!(!refused(&["10.0.0.1", "::1", "cache.example"], "test://x"));
    }

    #[test]
    fn an_authority_is_the_same_after_it_was_kept_in_files() {
        let scratch = Scratch::new();
        let made = authority("evenkeel authority");
        let certificate = scratch.file("authority.pem", made.certificate_pem());
        let key = scratch.file("key.pem", made.key_pem());
        let loaded = SigningAuthority::load(&certificate, &key).expect("an authority");
        assert_eq!(loaded.certificate_pem(), made.certificate_pem());
        assert_eq!((loaded.key_pem(), loaded.validity()), (made.key_pem(), DAY));
    }

    #[test]
    fn files_that_are_no_authority_of_ours_are_refused() {
        let scratch = Scratch::new();
        let made = authority("a");
        let certificate = scratch.file("authority.pem", made.certificate_pem());
        let other = scratch.file("other.pem", authority("a").key_pem());
        let check = |certificate: &Path, key: &Path, expected: &str| {
            let error = SigningAuthority::load(certificate, key).err().expect("an error");
            assert!(error.source.to_string().contains(expected), "{}", error.source);
        };
        check(&certificate, &other, "not the key of the certificate");
        check(&tests_file("server.pem"), &tests_file("server-key.pem"), "made here");
        check(&tests_file("authority.pem"), &other, "not the key");
        check(&scratch.path("none"), &other, "No such file");
    }
}
