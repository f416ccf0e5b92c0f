//! From parsed flags to options: checks and defaults that involve several flags.

use std::path::Path;

use super::auth::{self, Auth, ReadFile};
use super::listen::ListenDefaults;
use super::{Listen, Options, Protocol, flash_check, frames, memory_share, tls, udp};
use ::flags::show_size;

use crate::settings::flags::{Error, LowArgs};

/// Maximum length of a path in a unix socket address, without its final zero byte, on Linux.
const UNIX_PATH_LEN_MAX: usize = 107;

/// memcached's limit on the share of hot and warm items together.
const HOT_AND_WARM_PCT_MAX: u32 = 80;

fn read_policy(text: &str) -> Result<store::EvictionPolicy, Error> {
    text.parse().map_err(|store::NoPolicy| {
        Error::Together(format!(
            "-o policy: found `{text}`, expected auto, or size or plain, the percent for new items (1 to 90), uses (1 to 3) and \
             the percent of memory whose evicted items are remembered (20 to 280, in steps of 20), as in size:10:1:200"
        ))
    })
}

/// Shown where no kind of listener is left.
const NOTHING_LISTENS: &str =
    "-p 0 turns TCP off, and neither -s nor -U is given: no address is served, and no client can connect";

/// More threads cause a note; memcached warns, too.
const THREADS_SENSIBLE: usize = 64;

impl Options {
    /// Converts parsed flags.
    pub fn new(low: LowArgs, read_file: ReadFile<'_>) -> Result<Self, Error> {
        let listeners = listeners(&low)?;
        let tls = tls::meaning(&low.tls, &listeners).map_err(Error::Together)?;
        let udp_allow = low.udp.allow.join(",");
        let frames = frames::meaning(&low, &listeners).map_err(Error::Together)?;
        check_login(&low)?;
        let auth = low.auth_file.map(|path| read_auth(path, read_file)).transpose()?;
        let mut options = low.options;
        if let Some(share) = low.memory_share {
            let (bytes, words) = memory_share::limit(share, low.memory_found).map_err(Error::Together)?;
            (options.memory_limit_bytes, options.memory_share) = (bytes, Some(words));
        }
        options.notes.extend(tls::notes(&low.tls, &listeners));
        options.warnings.extend(tls::warnings(&low.tls));
        // memcached starts, too: what watches it may look at the process alone.
        options.warnings.extend(listeners.is_empty().then(|| NOTHING_LISTENS.to_owned()));
        if options.sasl {
            options.protocol = Protocol::Binary;
        }
        check_together(&options)?;
        if !udp_allow.is_empty() {
            options.udp.allow = udp::parse_networks(&udp_allow)
                .map_err(|problem| Error::Together(format!("--udp-allow: {problem}")))?;
        }
        let has_udp = listeners.iter().any(|listen| matches!(listen, Listen::Udp { .. }));
        if auth.is_some() && has_udp {
            return Err(Error::Together(
                "-Y and -U: expected one of them, because a datagram cannot log in".to_owned(),
            ));
        }
        if let Some(address) = &low.metrics_listen {
            options.metrics = Some(super::listen::parse_metrics(address).map_err(Error::Together)?);
        }
        if let Some(policy) = low.policy.as_deref().filter(|policy| *policy != "auto") {
            options.policy = Some(read_policy(policy)?);
        }
        let path =
            |path: &String| path.parse().map_err(|error| Error::Together(format!("-o ext_path: {error}")));
        options.flash.paths = low.ext_paths.iter().map(path).collect::<Result<_, _>>()?;
        if let Some(dwpd) = low.ext_dwpd {
            options.echo.extstore.write_rate_mb_s =
                flash_check::write_rate_mb_s(dwpd, &options).map_err(Error::Together)?;
        }
        options.flash.settings = options.echo.extstore.flash();
        let fitted = flash_check::fit(&mut options);
        options.warnings.extend(fitted);
        options.notes.extend(flash_check::note(&options));
        flash_check::check(&options, has_udp).map_err(Error::Together)?;
        check_fast_open(options.fast_open, &listeners)?;
        if options.memory_file.is_some() && options.takeover.is_some() {
            return Err(Error::Together("-e: expected either it or --takeover, found both".to_owned()));
        }
        let speaks_binary = |listen: &Listen| listen.protocol() == Some(Protocol::Binary);
        if auth.is_some() && !options.sasl && listeners.iter().any(speaks_binary) {
            return Err(Error::Together(
                "-Y and proto[binary]: expected -S as well, without which the binary protocol has no login"
                    .to_owned(),
            ));
        }
        if options.threads > THREADS_SENSIBLE {
            options.notes.push(format!("-t {}: more threads than cores only cost memory", options.threads));
        }
        options.connection_limit_is_default = !low.connection_limit_typed;
        let echo = &mut options.echo;
        echo.tcp_port = low.port.or(low.udp.port.filter(|&port| port != 0)).unwrap_or(echo.tcp_port);
        echo.udp_port = low.udp.port.unwrap_or(0);
        echo.interfaces = (!low.listen.is_empty()).then(|| low.listen.join(","));
        echo.unix_socket = low.unix_socket.map(Into::into);
        echo.unix_mask = low.unix_mask.unwrap_or(echo.unix_mask);
        Ok(Self { listeners, auth, tls, tls_given: low.tls, frames, ..options })
    }
}

/// The listeners: TCP, at the addresses of `-l` or everywhere, unless only a unix socket or inherited ones were
/// requested; then the unix socket, then the inherited ones.
fn listeners(low: &LowArgs) -> Result<Vec<Listen>, Error> {
    let mut listeners = Vec::new();
    let inherited = inherited(low)?;
    let wants_tcp = low.port.is_some() || !low.listen.is_empty();
    let only_unix = !wants_tcp && low.unix_socket.is_some();
    let only_inherited = !wants_tcp && !inherited.is_empty();
    let udp_port = low.udp.port.unwrap_or(0);
    // As in memcached, TCP goes to the port of -U where -p is not given.
    let tcp_default = if udp_port == 0 { low.options.echo.tcp_port } else { udp_port };
    let port = low.port.unwrap_or(tcp_default);
    if !only_unix && !only_inherited {
        add_internet(low, port, &mut listeners, |tcp| tcp)?;
    }
    if !only_unix {
        add_internet(low, udp_port, &mut listeners, |tcp| match tcp {
            Listen::Tcp { host, port, protocol, .. } => Listen::Udp { host, port, protocol },
            other => other,
        })?;
    }
    if let Some(path) = &low.unix_socket {
        if path.len() > UNIX_PATH_LEN_MAX {
            let problem =
                format!("expected a path of at most {UNIX_PATH_LEN_MAX} bytes, found {}", path.len());
            return Err(Error::File { flag: "-s", path: path.clone(), problem });
        }
        listeners.push(Listen::Unix { path: path.into(), mask: low.unix_mask.unwrap_or(0o700) });
    }
    listeners.extend(inherited.into_iter().map(Listen::Inherited));
    Ok(listeners)
}

/// Adds the addresses of `-l`, or every one, with `port` where none is given. Port 0 turns them off, whatever `-l`
/// says, as in memcached; -1 is the kernel's choice, which sockets call 0.
fn add_internet(
    low: &LowArgs,
    port: i32,
    listeners: &mut Vec<Listen>,
    kind: impl Fn(Listen) -> Listen,
) -> Result<(), Error> {
    if port == 0 {
        return Ok(());
    }
    let port = u16::try_from(port).unwrap_or(0);
    let secure = low.tls.default_check();
    for list in &low.listen {
        let defaults = ListenDefaults { port, secure };
        for listen in super::listen::parse_list(list, defaults).map_err(Error::Together)? {
            // As in memcached, an address may be given twice.
            let listen = kind(listen);
            if !listeners.contains(&listen) {
                listeners.push(listen);
            }
        }
    }
    if low.listen.is_empty() {
        listeners.push(kind(Listen::Tcp { host: None, port, secure, protocol: None }));
    }
    Ok(())
}

/// The descriptors of inherited sockets, those of `--listen-fd` first.
fn inherited(low: &LowArgs) -> Result<Vec<i32>, Error> {
    let mut inherited = Vec::new();
    for list in &low.listen_fd {
        inherited.extend(super::listen::parse_descriptors(list).map_err(Error::Together)?);
    }
    inherited.extend(&low.activated);
    for (at, number) in inherited.iter().enumerate() {
        if inherited[..at].contains(number) {
            let again = if low.activated.contains(number) { " (LISTEN_FDS passes it, too)" } else { "" };
            return Err(Error::Together(format!("--listen-fd {number}: given twice{again}")));
        }
    }
    Ok(inherited)
}

/// An inherited socket may be TCP: what it is shows when it is taken.
fn check_fast_open(fast_open: u32, listeners: &[Listen]) -> Result<(), Error> {
    let may_be_tcp = |listen: &Listen| matches!(listen, Listen::Tcp { .. } | Listen::Inherited(_));
    if fast_open > 0 && !listeners.iter().any(may_be_tcp) {
        return Err(Error::Together(format!("--fast-open {fast_open}: expected a TCP listener, found none")));
    }
    Ok(())
}

fn read_auth(path: String, read_file: ReadFile<'_>) -> Result<Auth, Error> {
    match auth::read(Path::new(&path), read_file) {
        Ok(users) => Ok(Auth { file: path.into(), users }),
        Err(problem) => Err(Error::File { flag: "-Y", path, problem }),
    }
}

/// The ways to log in: by the text protocol with `-Y` alone, by the binary protocol with `-S` as well.
fn check_login(low: &LowArgs) -> Result<(), Error> {
    let problem = match (low.options.sasl, &low.auth_file, low.protocol) {
        (true, None, _) => "-S: expected -Y as well, the file of users and passwords",
        (true, _, Some("ascii" | "auto")) => "-S: expected the protocol binary in -B, the only one with SASL",
        (false, Some(_), Some("binary")) => {
            "-Y: expected -S as well, without which the binary protocol has no login"
        }
        _ => return Ok(()),
    };
    Err(Error::Together(problem.to_owned()))
}

/// Limits that hold between two flags, as in memcached.
fn check_together(options: &Options) -> Result<(), Error> {
    let (item, half) = (options.item_size_max_bytes, options.memory_limit_bytes / 2);
    let echo = &options.echo;
    let problem = if item > half {
        format!(
            "-I {}: expected at most half of the memory limit (-m {}), which is {}",
            show_size(item),
            show_size(options.memory_limit_bytes),
            show_size(half),
        )
    } else if echo.napi_ids as usize > options.threads {
        format!("-N {}: expected at most the number of threads (-t {})", echo.napi_ids, options.threads)
    } else if echo.hot_lru_pct + echo.warm_lru_pct > HOT_AND_WARM_PCT_MAX {
        format!(
            "-o hot_lru_pct={},warm_lru_pct={}: expected at most {HOT_AND_WARM_PCT_MAX} together",
            echo.hot_lru_pct, echo.warm_lru_pct
        )
    } else if echo.temp_lru && !echo.lru_maintainer {
        "-o temporary_ttl: expected lru_maintainer to be on as well".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Together(problem))
}
