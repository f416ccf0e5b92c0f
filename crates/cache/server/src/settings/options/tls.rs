//! TLS options: `-Z`, `-o ssl_…`, `--tls-…`, checked against each other and the listeners. No file is read here.

use std::path::PathBuf;

use tls::{CERTIFICATES_MAX, CertificateFiles, Ciphers, KeyFormat, PeerCheck, TlsSettings};

use super::Listen;
use super::settings::yes;

/// What listeners with TLS show and ask, and the limits of handshakes.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsOptions {
    /// The files, and choices about them.
    pub settings: TlsSettings,
    /// How clients are checked at a socket that is inherited.
    pub default_check: PeerCheck,
    /// `--tls-handshake-threads`
    pub handshake_threads: usize,
    /// `--tls-handshakes-max`
    pub handshakes_max: usize,
    /// `--tls-handshake-timeout`
    pub handshake_timeout_ms: u32,
}

/// Flags about TLS as typed, each checked by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsGiven {
    /// `-Z`
    pub enabled: bool,
    /// `-o ssl_chain_cert`
    pub chain_cert: Option<String>,
    /// `-o ssl_key`
    pub key: Option<String>,
    /// `-o ssl_keyformat`: 1 or 2.
    pub key_format: u32,
    /// `-o ssl_verify_mode`: 0 to 3.
    pub verify_mode: u32,
    /// `-o ssl_ciphers`
    pub ciphers: Option<String>,
    /// `-o ssl_ca_cert`
    pub ca_cert: Option<String>,
    /// `-o ssl_wbuf_size`, in bytes
    pub write_buffer_bytes: u32,
    /// `-o ssl_session_cache`
    pub session_cache: bool,
    /// `-o ssl_kernel_tls`
    pub kernel: bool,
    /// `-o ssl_min_version`: 0 to 3.
    pub min_version: u32,
    /// `--tls-certificate`, once per occurrence
    pub certificates: Vec<String>,
    /// `--tls-ticket-keys`
    pub ticket_keys: Option<String>,
    /// `--tls-roles`
    pub roles: Option<String>,
    /// `--tls-handshake-threads`
    pub handshake_threads: usize,
    /// `--tls-handshakes-max`
    pub handshakes_max: usize,
    /// `--tls-handshake-timeout`
    pub handshake_timeout_s: u32,
}

impl Default for TlsGiven {
    fn default() -> Self {
        Self {
            enabled: false,
            chain_cert: None,
            key: None,
            key_format: 1,
            verify_mode: 0,
            ciphers: None,
            ca_cert: None,
            write_buffer_bytes: 16 * 1024,
            session_cache: false,
            kernel: false,
            min_version: 2,
            certificates: Vec::new(),
            ticket_keys: None,
            roles: None,
            handshake_threads: 2,
            handshakes_max: 4096,
            handshake_timeout_s: 10,
        }
    }
}

impl TlsGiven {
    /// How clients are checked where an address does not say it; `None` without TLS.
    pub(super) fn default_check(&self) -> Option<PeerCheck> {
        let check = match self.verify_mode {
            0 => PeerCheck::Never,
            1 => PeerCheck::IfShown,
            _ => PeerCheck::Always,
        };
        self.enabled.then_some(check)
    }

    /// The lines of `stats settings`, as memcached's.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let or = |given: &Option<String>, absent: &str| given.clone().unwrap_or(absent.to_owned());
        let version = match self.min_version {
            0 => "tlsv1.0",
            1 => "tlsv1.1",
            2 => "tlsv1.2",
            _ => "tlsv1.3",
        };
        vec![
            ("ssl_enabled", yes(self.enabled)),
            ("ssl_chain_cert", or(&self.chain_cert, "(null)")),
            ("ssl_key", or(&self.key, "(null)")),
            ("ssl_verify_mode", self.verify_mode_of_openssl().to_string()),
            ("ssl_keyformat", self.key_format.to_string()),
            ("ssl_ciphers", or(&self.ciphers, "NULL")),
            ("ssl_ca_cert", or(&self.ca_cert, "NULL")),
            ("ssl_wbuf_size", self.write_buffer_bytes.to_string()),
            ("ssl_session_cache", yes(self.session_cache)),
            ("ssl_kernel_tls", yes(self.kernel)),
            ("ssl_min_version", version.to_owned()),
        ]
    }

    /// memcached shows OpenSSL's bits: ask for a certificate (1), refuse without one (2), ask once (4).
    fn verify_mode_of_openssl(&self) -> u32 {
        [0, 1, 3, 7][self.verify_mode.min(3) as usize]
    }

    /// The flags of our own that mean nothing without TLS, if one is given.
    fn own_flag(&self) -> Option<&'static str> {
        let given = [
            ("--tls-certificate", !self.certificates.is_empty()),
            ("--tls-ticket-keys", self.ticket_keys.is_some()),
            ("--tls-roles", self.roles.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

/// Checks what is given. The error is a clause with the flag, what was found and what is accepted.
pub(super) fn meaning(given: &TlsGiven, listeners: &[Listen]) -> Result<Option<TlsOptions>, String> {
    let Some(default_check) = given.default_check() else {
        return match given.own_flag() {
            None => Ok(None),
            Some(flag) => Err(format!("{flag}: expected -Z as well")),
        };
    };
    let Some(chain) = &given.chain_cert else {
        return Err("-Z: expected -o ssl_chain_cert=FILE as well, the server's certificate".to_owned());
    };
    check_listeners(given, default_check, listeners)?;
    let own = CertificateFiles { chain: chain.into(), key: given.key.as_ref().map(PathBuf::from) };
    let further = given.certificates.iter().map(|files| certificate_files(files));
    let certificates: Vec<_> = [Ok(own)].into_iter().chain(further).collect::<Result<_, _>>()?;
    if certificates.len() > CERTIFICATES_MAX {
        let found = certificates.len();
        return Err(format!(
            "--tls-certificate: expected at most {CERTIFICATES_MAX} certificates, found {found}"
        ));
    }
    let ciphers = given.ciphers.as_deref().map(Ciphers::parse).unwrap_or_default();
    let settings = TlsSettings {
        certificates,
        key_format: if given.key_format == 1 { KeyFormat::Pem } else { KeyFormat::Der },
        authorities: given.ca_cert.as_ref().map(PathBuf::from),
        ciphers,
        tls13_only: given.min_version == 3,
        ticket_keys: given.ticket_keys.as_ref().map(PathBuf::from),
        roles: given.roles.as_ref().map(PathBuf::from),
        session_cache: given.session_cache,
        kernel: given.kernel,
    };
    Ok(Some(TlsOptions {
        settings,
        default_check,
        handshake_threads: given.handshake_threads,
        handshakes_max: given.handshakes_max,
        handshake_timeout_ms: given.handshake_timeout_s * 1000,
    }))
}

/// Checks what is given against the listeners.
fn check_listeners(given: &TlsGiven, default_check: PeerCheck, listeners: &[Listen]) -> Result<(), String> {
    let checks = || {
        listeners.iter().filter_map(|listen| match listen {
            Listen::Tcp { secure, .. } => *secure,
            Listen::Inherited(_) => Some(default_check),
            Listen::Udp { .. } | Listen::Unix { .. } => None,
        })
    };
    let ask = default_check != PeerCheck::Never || checks().any(|check| check != PeerCheck::Never);
    let udp = listeners.iter().any(|listen| matches!(listen, Listen::Udp { .. }));
    let problem = if !listeners
        .iter()
        .any(|listen| !matches!(listen, Listen::Udp { .. } | Listen::Unix { .. }))
    {
        "-Z: expected a TCP listener, the only kind that is encrypted"
    } else if ask && given.ca_cert.is_none() {
        "clients' certificates (-o ssl_verify_mode, `mtls:`): expected -o ssl_ca_cert=FILE as well, their authorities"
    } else if given.roles.is_some() && !ask {
        "--tls-roles: expected -o ssl_verify_mode or `mtls:` as well, because roles follow from clients' certificates"
    } else if given.roles.is_some() && udp {
        "--tls-roles and -U: expected one of them, because a datagram comes without a certificate"
    } else {
        return Ok(());
    };
    Err(problem.to_owned())
}

/// Lines for every start about what is not as it was typed.
pub(super) fn warnings(given: &TlsGiven) -> Vec<String> {
    if !given.enabled {
        return Vec::new();
    }
    let version = (given.min_version < 2).then(|| {
        format!(
            "-o ssl_min_version={}: TLS 1.2 is the least version, because TLS 1.0 and 1.1 are not supported",
            given.min_version
        )
    });
    let ciphers = given.ciphers.as_deref().and_then(Ciphers::left_out);
    version.into_iter().chain(ciphers.map(|left_out| format!("-o ssl_ciphers: {left_out}"))).collect()
}

/// Lines for the log about what may surprise.
pub(super) fn notes(given: &TlsGiven, listeners: &[Listen]) -> Vec<String> {
    let plain = |listen: &Listen| match listen {
        Listen::Tcp { .. } | Listen::Inherited(_) => None,
        Listen::Udp { .. } => Some("-U: datagrams are not encrypted"),
        Listen::Unix { .. } => Some("-s: the unix socket is not encrypted"),
    };
    let mut notes: Vec<&str> = match given.enabled {
        true => listeners.iter().filter_map(plain).collect(),
        false if given.chain_cert.is_some() => vec!["-o ssl_chain_cert: nothing is encrypted without -Z"],
        false => Vec::new(),
    };
    notes.dedup();
    notes.into_iter().map(str::to_owned).collect()
}

/// Parses `CHAIN[:KEY]`.
fn certificate_files(files: &str) -> Result<CertificateFiles, String> {
    let (chain, key) = match files.split_once(':') {
        None => (files, None),
        Some((chain, key)) => (chain, Some(key)),
    };
    if chain.is_empty() || key.is_some_and(str::is_empty) {
        return Err(format!("--tls-certificate {files}: expected FILE or FILE:FILE"));
    }
    Ok(CertificateFiles { chain: chain.into(), key: key.map(PathBuf::from) })
}
