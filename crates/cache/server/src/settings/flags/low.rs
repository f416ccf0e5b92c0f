//! Parsed flags, each checked by itself.

use ::flags::{SizeShare, Target};
use net::FramesFrom;

use crate::settings::options::{MemoryFound, Options, TlsGiven};

/// One flag, or one sub-option of `-o`.
pub type Flag = flags::Flag<LowArgs>;

/// Parsed flags. Each value is checked by itself; values are not compared with each other yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LowArgs {
    /// `-p`; -1 asks for any free port.
    pub port: Option<i32>,
    /// `-U` and `--udp-…`
    pub udp: UdpGiven,
    /// `-s`
    pub unix_socket: Option<String>,
    /// `-a`
    pub unix_mask: Option<u32>,
    /// `-l`, once per occurrence.
    pub listen: Vec<String>,
    /// `--listen-fd`, once per occurrence.
    pub listen_fd: Vec<String>,
    /// Descriptors of sockets that systemd has passed, which no flag names.
    pub activated: Vec<i32>,
    /// `-B`
    pub protocol: Option<&'static str>,
    /// `-Y`
    pub auth_file: Option<String>,
    /// `--metrics-listen`
    pub metrics_listen: Option<String>,
    /// `-Z`, `-o ssl_…` and `--tls-…`
    pub tls: TlsGiven,
    /// `-o ext_path`, once per occurrence.
    pub ext_paths: Vec<String>,
    /// `-o policy` as typed.
    pub policy: Option<String>,
    /// `ext_dwpd`, drive writes per day
    pub ext_dwpd: Option<f64>,
    /// `-c` is typed.
    pub connection_limit_typed: bool,
    /// `-m auto` and `-m 80%`.
    pub memory_share: Option<SizeShare>,
    /// The memory of which it is a share, as found by the program that starts the server.
    pub memory_found: Option<MemoryFound>,
    /// `--check`: end when everything is read.
    pub check: bool,
    /// `-i`: print the license and end.
    pub license: bool,
    /// Flags whose meaning does not depend on others, already in their final form.
    pub options: Options,
}

/// Flags about datagrams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UdpGiven {
    /// `-U`; -1 asks for any free port.
    pub port: Option<i32>,
    /// `--udp-allow`, once per occurrence.
    pub allow: Vec<String>,
    /// `--udp-xdp`, once per occurrence, and `--udp-xdp-mode`.
    pub frames: FramesFrom,
}

impl Target for LowArgs {
    const LENIENT: bool = true;

    fn note(&mut self, note: String) {
        self.options.notes.push(note);
    }

    fn warn(&mut self, line: String) {
        self.options.warnings.push(line);
    }
}
