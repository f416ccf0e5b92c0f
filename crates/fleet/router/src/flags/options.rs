//! Options of a router: what a command line says, and what follows from several flags together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::flags::{Error, Target};
use net::DriverChoice;

use super::tls_options::RouteTlsOptions;
use crate::config::{CompileOptions, DictionaryFiles, config_params};
use crate::message::routing_prefix::{self, RoutingPrefix};
use crate::routes::requests::big_value::BigValue;
use crate::servers::health::HealthSettings;

/// The maximum number of threads, more than the CPUs of present machines.
pub(super) const THREADS_MAX: i64 = 1024;

/// Where the configuration is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// A file.
    File(PathBuf),
    /// The command line.
    Text(String),
}

/// What `--validate-config` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validate {
    /// To end after the check.
    Exit,
    /// To route after it.
    Run,
}

/// A command line. Each value is checked by itself; [`RouteOptions::check`] checks them together.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is the flag of its name")]
pub struct RouteOptions {
    pub ports: Vec<String>,
    pub listen_addresses: Vec<String>,
    pub unix: Option<PathBuf>,
    pub listen_fd: Option<i32>,
    pub takeover: Option<PathBuf>,
    pub background: bool,
    pub proxies: usize,
    pub proxy_threads: Option<String>,
    pub buffer_memory_mb: usize,
    pub connections_max: usize,
    pub backlog: Option<u32>,
    pub driver: DriverChoice,
    pub config: Option<ConfigSource>,
    pub config_file: Option<PathBuf>,
    pub config_str: Option<String>,
    pub config_params: String,
    pub additional_config_params: String,
    pub validate: Option<Validate>,
    pub reload: bool,
    pub reconfiguration_delay_ms: u64,
    pub reconfiguration_jitter_ms: u64,
    pub post_reconfiguration_delay_ms: u64,
    pub config_dump_root: Option<PathBuf>,
    pub config_dump_age_max_s: u64,
    pub flush_enabled: bool,
    pub shutdown_enabled: bool,
    pub stats_root: Option<PathBuf>,
    pub stats_interval_ms: u64,
    pub debug_fifo_root: Option<PathBuf>,
    pub only_gets: bool,
    pub route_prefix: String,
    pub invalid_to_default: bool,
    pub partial_multiget: bool,
    pub big_value_split_threshold: u64,
    pub big_value_batch_size: u16,
    pub big_value_hides_flag: bool,
    pub log_requests: bool,
    pub asynclog: bool,
    pub async_dir: PathBuf,
    pub asynclog_version2: bool,
    pub runtime_variables: Option<PathBuf>,
    pub pool_stats_file: Option<PathBuf>,
    pub shadows_max: usize,
    pub shadow_report: Option<PathBuf>,
    /// Replies of shadows are compared for the metrics.
    pub compares_shadows: bool,
    pub server_timeout_ms: u32,
    pub within_cluster_timeout_ms: u32,
    pub cross_cluster_timeout_ms: u32,
    pub cross_region_timeout_ms: u32,
    pub health: HealthSettings,
    pub reset_inactive_ms: u32,
    pub dns_refresh_s: u64,
    pub tls: RouteTlsOptions,
    pub router_name: Option<String>,
    pub service_name: String,
    pub verbosity: u8,
    pub metrics_listen: Option<String>,
    pub hides_hot_keys: bool,
    pub cluster_file: Option<PathBuf>,
    pub pidfile: Option<PathBuf>,
    /// Lines for the operator.
    pub notes: Vec<String>,
}

impl Default for RouteOptions {
    /// mcrouter's defaults.
    fn default() -> RouteOptions {
        RouteOptions {
            ports: Vec::new(),
            listen_addresses: Vec::new(),
            unix: None,
            listen_fd: None,
            takeover: None,
            background: false,
            proxies: 1,
            proxy_threads: None,
            buffer_memory_mb: 512,
            connections_max: 0,
            backlog: None,
            driver: DriverChoice::Auto,
            config: None,
            config_file: None,
            config_str: None,
            config_params: String::new(),
            additional_config_params: String::new(),
            validate: None,
            reload: true,
            reconfiguration_delay_ms: 1000,
            reconfiguration_jitter_ms: 0,
            post_reconfiguration_delay_ms: 0,
            config_dump_root: None,
            config_dump_age_max_s: 12 * 60 * 60,
            flush_enabled: false,
            shutdown_enabled: true,
            stats_root: None,
            stats_interval_ms: 10_000,
            debug_fifo_root: None,
            only_gets: false,
            route_prefix: "/././".to_owned(),
            invalid_to_default: false,
            partial_multiget: false,
            big_value_split_threshold: 0,
            big_value_batch_size: 10,
            big_value_hides_flag: false,
            log_requests: false,
            asynclog: true,
            async_dir: "/var/spool/mcrouter".into(),
            asynclog_version2: false,
            runtime_variables: None,
            pool_stats_file: None,
            shadows_max: 1000,
            shadow_report: None,
            compares_shadows: false,
            server_timeout_ms: 1000,
            within_cluster_timeout_ms: 0,
            cross_cluster_timeout_ms: 0,
            cross_region_timeout_ms: 0,
            health: HealthSettings::default(),
            reset_inactive_ms: 60_000,
            dns_refresh_s: 30,
            tls: RouteTlsOptions::default(),
            router_name: None,
            service_name: "mcrouter".to_owned(),
            verbosity: 0,
            metrics_listen: None,
            hides_hot_keys: false,
            cluster_file: None,
            pidfile: None,
            notes: Vec::new(),
        }
    }
}

impl Target for RouteOptions {
    fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

impl ConfigSource {
    /// The value of `--config`.
    pub(super) fn of_flag(text: &str) -> ConfigSource {
        match text.strip_prefix("file:") {
            Some(path) => ConfigSource::File(path.into()),
            None => ConfigSource::Text(text.to_owned()),
        }
    }

    /// Its name in errors.
    pub fn name(&self) -> String {
        match self {
            ConfigSource::File(path) => path.display().to_string(),
            ConfigSource::Text(_) => "configuration".to_owned(),
        }
    }

    /// The file of an import, as mcrouter finds it.
    pub fn import(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("file:"), self) {
            (Some(path), _) => path.into(),
            (None, ConfigSource::File(file)) => file.parent().unwrap_or(Path::new("")).join(path),
            (None, ConfigSource::Text(_)) => path.into(),
        }
    }
}

impl RouteOptions {
    /// Checks flags against each other. `cpus` is the number of CPUs, for `--proxy-threads=auto`.
    ///
    /// # Errors
    /// The flag, what was expected, and what was found.
    pub fn check(mut self, cpus: usize) -> Result<RouteOptions, Error> {
        let wrong = |flag: &str, expected: &str, found: &str| Error::Value {
            flag: flag.to_owned(),
            expected: expected.to_owned(),
            found: format!("`{found}`"),
        };
        match self.proxy_threads.as_deref() {
            None => {}
            Some("auto") => self.proxies = cpus.clamp(1, THREADS_MAX as usize),
            Some(text) => {
                let count = text.parse().ok().filter(|count| (1..=THREADS_MAX as usize).contains(count));
                let expected = format!("auto or a number from 1 to {THREADS_MAX}");
                self.proxies = count.ok_or_else(|| wrong("--proxy-threads", &expected, text))?;
            }
        }
        match RoutingPrefix::parse(&self.route_prefix) {
            Some(prefix) => self.route_prefix = prefix.to_string(),
            None => return Err(wrong("-R", routing_prefix::EXPECTED, &self.route_prefix)),
        }
        let flag = match config_params(&self.config_params, "") {
            Ok(_) => "--additional-config-params",
            Err(_) => "--config-params",
        };
        self.params().map_err(|error| Error::Together(format!("{flag}: {error}")))?;
        self.tcp_ports()?;
        self.ssl_ports()?;
        self.notes.extend(self.tls.borrow_from_servers());
        self.tls.check()?;
        self.metrics_address()?;
        if self.source().is_none() {
            return Err(Error::Together(
                "expected a configuration (--config file:PATH), found none".to_owned(),
            ));
        }
        let listens = !self.ports.is_empty() || !self.tls.ssl_ports.is_empty();
        let listens = listens || self.unix.is_some() || self.listen_fd.is_some();
        if !listens && self.validate != Some(Validate::Exit) {
            return Err(Error::Together(
                "expected a place to listen on (-p PORT, --ssl-port PORT, --unix-domain-sock FILE or \
                 --listen-sock-fd NUM), found none"
                    .to_owned(),
            ));
        }
        Ok(self)
    }

    /// The configuration that counts.
    pub fn source(&self) -> Option<ConfigSource> {
        let text = || self.config_str.clone().map(ConfigSource::Text);
        self.config.clone().or_else(text).or_else(|| self.config_file.clone().map(ConfigSource::File))
    }

    /// The ports of `-p`.
    ///
    /// # Errors
    /// What is no port.
    pub fn tcp_ports(&self) -> Result<Vec<u16>, Error> {
        ports("-p", &self.ports)
    }

    /// The ports of `--ssl-port`.
    ///
    /// # Errors
    /// What is no port.
    pub fn ssl_ports(&self) -> Result<Vec<u16>, Error> {
        ports("--ssl-port", &self.tls.ssl_ports)
    }

    /// Host and port of `--metrics-listen`; without a host, every interface.
    ///
    /// # Errors
    /// What is no address.
    pub fn metrics_address(&self) -> Result<Option<(Option<&str>, u16)>, Error> {
        let Some(text) = self.metrics_listen.as_deref() else { return Ok(None) };
        host_and_port(text).map(Some).ok_or_else(|| Error::Value {
            flag: "--metrics-listen".to_owned(),
            expected: "a name, an address, [an IPv6 address] or *, with or without :port".to_owned(),
            found: format!("`{text}`"),
        })
    }

    /// The addresses of `--listen-addresses`.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        words(&self.listen_addresses)
    }

    /// Constants of the configuration.
    ///
    /// # Errors
    /// What is no pair.
    pub fn params(&self) -> Result<Vec<(String, String)>, String> {
        config_params(&self.config_params, &self.additional_config_params)
    }

    /// What the name of this router is in the configuration.
    pub fn name_of_router(&self) -> String {
        let port = || words(&self.ports).next().unwrap_or("0").to_owned();
        self.router_name.clone().unwrap_or_else(port)
    }

    /// Numbers and switches by mcrouter's names: `mcr_opts-…` of a configuration.
    pub fn named(&self) -> Vec<(String, String)> {
        let number = |name: &str, number: u64| (name.to_owned(), number.to_string());
        vec![
            number("num_proxies", self.proxies as u64),
            number("server_timeout_ms", self.server_timeout_ms.into()),
            number("within_cluster_timeout_ms", self.within_cluster_timeout_ms.into()),
            number("cross_cluster_timeout_ms", self.cross_cluster_timeout_ms.into()),
            number("cross_region_timeout_ms", self.cross_region_timeout_ms.into()),
            number("failures_until_tko", self.health.timeouts_until_unavailable.into()),
            number("probe_delay_initial_ms", self.health.probe_initial_ms.into()),
            number("probe_delay_max_ms", self.health.probe_max_ms.into()),
            number("reset_inactive_connection_interval", self.reset_inactive_ms.into()),
            number("disable_tko_tracking", self.health.disabled.into()),
            number("ssl_verify_peers", self.tls.verify_peers.into()),
            number("ssl_connection_cache", self.tls.resumes.into()),
            number("send_invalid_route_to_default", self.invalid_to_default.into()),
            number("allow_only_gets", self.only_gets.into()),
            number("disable_reload_configs", (!self.reload).into()),
            number("reconfiguration_delay_ms", self.reconfiguration_delay_ms),
            number("big_value_split_threshold", self.big_value_split_threshold),
            number("big_value_batch_size", self.big_value_batch_size.into()),
            number("big_value_hide_reply_flag", self.big_value_hides_flag.into()),
            number("reconfiguration_jitter_ms", self.reconfiguration_jitter_ms),
            number("post_reconfiguration_delay_ms", self.post_reconfiguration_delay_ms),
            number("max_dumped_config_age", self.config_dump_age_max_s),
            number("enable_flush_cmd", self.flush_enabled.into()),
            number("stats_logging_interval", self.stats_interval_ms),
        ]
    }

    /// All options that work here, by mcrouter's names.
    pub fn reported(&self) -> Vec<(String, String)> {
        let text = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let path = |path: &Option<PathBuf>| path.as_deref().unwrap_or(Path::new("")).display().to_string();
        let config = match &self.config {
            Some(ConfigSource::File(path)) => format!("file:{}", path.display()),
            Some(ConfigSource::Text(text)) => text.clone(),
            None => String::new(),
        };
        let mut all = vec![
            text("service_name", &self.service_name),
            text("router_name", &self.name_of_router()),
            text("config", &config),
            text("config_file", &path(&self.config_file)),
            text("config_str", self.config_str.as_deref().unwrap_or_default()),
            text("default_route", &self.route_prefix),
            text("listen_addresses", &self.hosts().collect::<Vec<_>>().join(",")),
            text("ports", &words(&self.ports).collect::<Vec<_>>().join(",")),
            text("ssl_ports", &words(&self.tls.ssl_ports).collect::<Vec<_>>().join(",")),
            text("unix_domain_sock", &path(&self.unix)),
            text("pem_cert_path", &path(&self.tls.cert)),
            text("pem_key_path", &path(&self.tls.key)),
            text("pem_ca_path", &path(&self.tls.ca)),
            text("server_pem_cert_path", &path(&self.tls.server_cert)),
            text("server_pem_key_path", &path(&self.tls.server_key)),
            text("server_pem_ca_path", &path(&self.tls.server_ca)),
            text("config_dump_root", &path(&self.config_dump_root)),
            text("stats_root", &path(&self.stats_root)),
            text("debug_fifo_root", &path(&self.debug_fifo_root)),
            text("pool_stats_config_file", &path(&self.pool_stats_file)),
        ];
        all.extend(self.named());
        all
    }

    /// The routing prefix of this router.
    pub fn own_prefix(&self) -> RoutingPrefix {
        RoutingPrefix::parse(&self.route_prefix).expect("options are checked")
    }

    /// What the routes depend on.
    pub fn compile_options(&self, host_id: u32) -> CompileOptions {
        CompileOptions {
            default_prefix: self.own_prefix(),
            server_timeout_ms: self.server_timeout_ms,
            within_cluster_timeout_ms: self.within_cluster_timeout_ms,
            cross_cluster_timeout_ms: self.cross_cluster_timeout_ms,
            cross_region_timeout_ms: self.cross_region_timeout_ms,
            host_id,
            big_value: (self.big_value_split_threshold > 0).then_some(BigValue {
                threshold: self.big_value_split_threshold,
                batch: self.big_value_batch_size,
                hides_flag: self.big_value_hides_flag,
            }),
            invalid_to_default: self.invalid_to_default,
            only_gets: self.only_gets,
            proxies: self.proxies,
            tls_fast_open: self.tls.fast_open,
            logs_deletes: self.asynclog,
            log_requests: self.log_requests,
            compares_shadows: self.compares_shadows || self.shadow_report.is_some(),
            variables: None,
            counted_pools: Arc::default(),
            dictionaries: DictionaryFiles::new(),
        }
    }
}

fn ports(flag: &str, lists: &[String]) -> Result<Vec<u16>, Error> {
    let wrong = |word: &str| Error::Value {
        flag: flag.to_owned(),
        expected: "ports from 0 to 65535".to_owned(),
        found: format!("`{word}`"),
    };
    words(lists).map(|word| word.parse().map_err(|_| wrong(word))).collect()
}

fn words(lists: &[String]) -> impl Iterator<Item = &str> {
    lists.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// The port of metrics if none is given: that of mcrouter_exporter, so that scrape jobs for it find it.
const METRICS_PORT: u16 = 9442;

/// `host`, `host:port`, `[v6]`, `[v6]:port`, `v6`.
fn host_and_port(text: &str) -> Option<(Option<&str>, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => inner
            .split_once(']')
            .map(|(host, rest)| (host, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some(""))))?,
        None if text.matches(':').count() > 1 => (text, Some("")),
        None => text
            .split_once(':')
            .map_or((text, Some("")), |(host, port)| (host, Some(port).filter(|port| !port.is_empty()))),
    };
    let port = match port? {
        "" => METRICS_PORT,
        port => port.parse().ok()?,
    };
    (!host.is_empty()).then(|| ((host != "*").then_some(host), port))
}
