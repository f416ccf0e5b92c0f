//! The configuration of a router: its files, and the plan that follows.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use router::config::{
    CompileOptions, DictionaryFiles, Environment, GlobalParams, Json, compile, dictionary_files,
    expand_config,
};
use router::flags::{ConfigSource, RouteOptions};
use router::hash::murmur64a;
use router::{ConfigFacts, CountedPools, DICTIONARY_LEN_MAX, RoutePlan, md5_hex};

use super::lines::{TRANSIENT, UNRECOVERABLE};
use crate::failure::Failure;
use crate::process::bounded_file::read_at_most;
use crate::process::watched::WatchedFiles;
use config_dump::ConfigDump;

pub(super) mod config_dump;
pub(super) mod counted_pools;
mod file_watch;
pub(super) mod reload;
pub(super) mod variables;

/// The longest file that is read. The path may name a device that never ends.
const FILE_LEN_MAX: u64 = 64 * 1024 * 1024;

/// What plans are made of, beside the text of files.
pub(super) struct Configuration {
    source: ConfigSource,
    compile: CompileOptions,
    options: RouteOptions,
}

/// The result of reading a configuration.
pub(super) struct Attempt {
    plan: Option<Result<RoutePlan, Failure>>,
    /// The files that were read or looked for.
    pub(super) files: WatchedFiles,
    /// Their texts, those that were read, the configuration first; to be kept.
    pub(super) texts: Vec<(PathBuf, Vec<u8>)>,
    /// The plan was made from copies.
    pub(super) is_from_dump: bool,
}

impl Attempt {
    /// The plan, or why there is none; once.
    pub(super) fn take_plan(&mut self) -> Result<RoutePlan, Failure> {
        self.plan.take().expect("the plan is taken once")
    }
}

impl Configuration {
    pub(super) fn new(options: &RouteOptions, counted_pools: Arc<CountedPools>) -> Configuration {
        Configuration {
            source: options.source().expect("options are checked"),
            compile: CompileOptions { counted_pools, ..options.compile_options(host_id()) },
            options: options.clone(),
        }
    }

    /// Values that plans made from now on begin with.
    pub(super) fn set_variables(&mut self, variables: Option<Arc<Json>>) {
        self.compile.variables = variables;
    }

    /// Reads files, and makes the plan of this generation.
    pub(super) fn load(&self, generation: u64) -> Attempt {
        let (files, texts) = (RefCell::<WatchedFiles>::default(), RefCell::default());
        let plan = self.plan(generation, &texts, &|path| {
            files.borrow_mut().add(path);
            read(path)
        });
        Attempt {
            plan: Some(plan),
            files: files.into_inner(),
            texts: texts.into_inner(),
            is_from_dump: false,
        }
    }

    /// Makes the first plan from copies that were kept; of a file without one, from the file.
    pub(super) fn load_copies(&self, dump: &ConfigDump) -> Result<RoutePlan, Failure> {
        self.plan(1, &RefCell::default(), &|path| dump.read(path).or_else(|_| read(path)))
    }

    fn plan(
        &self,
        generation: u64,
        texts: &RefCell<Vec<(PathBuf, Vec<u8>)>>,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<RoutePlan, Failure> {
        // What fails because of the system may succeed later.
        let may_pass = Cell::new(false);
        let failed = |message: String| {
            let status = if may_pass.get() { TRANSIENT } else { UNRECOVERABLE };
            Failure::other(anyhow::anyhow!(message)).with_status(status)
        };
        let digests = RefCell::new(Vec::new());
        let read = |path: &Path| {
            let text = read(path).map_err(|error| {
                may_pass.set(true);
                format!("read {}: {error}", path.display())
            })?;
            digests.borrow_mut().push((path.display().to_string(), md5_hex(&text)));
            if self.options.config_dump_root.is_some() {
                texts.borrow_mut().push((path.to_owned(), text.clone()));
            }
            Ok(text)
        };
        let text = match &self.source {
            ConfigSource::File(path) => read(path).map_err(failed)?,
            ConfigSource::Text(text) => text.clone().into_bytes(),
        };
        let (file, md5) = match digests.borrow_mut().pop() {
            Some((path, md5)) => (Some(path), md5),
            None => (None, md5_hex(&text)),
        };
        let mut importer = |path: &str| read(&self.source.import(path));
        let params = self.options.params().expect("options are checked");
        let globals = GlobalParams {
            default_route: &self.options.own_prefix(),
            host_id: self.compile.host_id,
            router_name: &self.options.name_of_router(),
            service_name: &self.options.service_name,
            proxy_count: self.options.proxies as u32,
            config_params: &params,
            options: &self.options.named(),
        };
        let globals = globals.constants();
        let environment = Environment {
            globals: globals.clone(),
            importer: &mut importer,
            is_local: &is_local,
            seed: generation,
        };
        let expanded = expand_config(&self.source.name(), &text, environment);
        let expanded = expanded.map_err(|error| failed(error.to_string()))?;
        let dictionaries = self.dictionaries(&expanded.root, &read);
        let options = CompileOptions { dictionaries, ..self.compile.clone() };
        // Names are looked up while the router runs.
        let mut resolve = |_: &str, _| None;
        let mut plan = compile(&expanded.root, generation, &options, &mut resolve)
            .map_err(|error| failed(error.located(&expanded.sources).to_string()))?;
        let facts = ConfigFacts { file, md5, imports: digests.take(), expanded: expanded.root, globals };
        plan.facts = Some(Arc::new(facts));
        Ok(plan)
    }

    /// Reads the dictionaries that a configuration names. They lie where its imports do, and are watched like them.
    fn dictionaries(
        &self,
        config: &Json,
        read: &dyn Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> DictionaryFiles {
        let files = dictionary_files(config).into_iter().enumerate();
        let bytes = |number, name: &str| {
            if number >= DICTIONARIES_MAX {
                return Err(format!(
                    "expected at most {DICTIONARIES_MAX} dictionaries in all pools, found more"
                ));
            }
            let bytes = read(&self.source.import(name))?;
            match bytes.len() {
                len if len > DICTIONARY_LEN_MAX => {
                    Err(format!("expected at most {DICTIONARY_LEN_MAX} bytes, found {len}"))
                }
                _ => Ok(bytes.into()),
            }
        };
        files.map(|(number, name)| (name.to_owned(), bytes(number, name))).collect()
    }
}

/// Dictionaries that a configuration may name, all told: as many as a pool has, for four pools.
const DICTIONARIES_MAX: usize = 64;

/// Reads a file. Without waiting: a fifo would never end.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, FILE_LEN_MAX)
}

/// Whether an address is one of this host: only those can be bound (unless `ip_nonlocal_bind` is set).
fn is_local(address: IpAddr) -> bool {
    !address.is_multicast() && !address.is_unspecified() && UdpSocket::bind((address, 0)).is_ok()
}

/// A number that stays with this host, from its name. mcrouter's is from its first address.
pub(super) fn host_id() -> u32 {
    murmur64a(rustix::system::uname().nodename().to_bytes(), 0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_host_are_local() {
        let is = |address: &str| is_local(address.parse().expect("an address"));
        assert!(is("127.0.0.1"));
        assert!(!is("192.0.2.1") && !is("0.0.0.0") && !is("224.0.0.1"));
    }
}
