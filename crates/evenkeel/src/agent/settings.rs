//! The file of an agent: its host, its controllers, and what it is beside.

use std::path::PathBuf;

use control::{
    ControlPlace, MEMBERS_PER_HOST_MAX, MetricsPlace, ROUTERS_PER_HOST_MAX, TuneSettings, is_client_address,
};
use fleet::{HostId, MemberId, RouterId, ViewName, ZoneName};
use serde::{Deserialize, Deserializer};

use super::upgrade::{UpgradeEntry, check_command};

/// Controllers of a fleet.
const CONTROLLERS_MAX: usize = 16;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentFile {
    /// The host's name in the fleet.
    pub(super) host: HostId,
    /// Where it is.
    pub(super) zone: ZoneName,
    /// `HOST:PORT` or `unix:PATH` of each controller.
    #[serde(deserialize_with = "places")]
    pub(super) controllers: Vec<ControlPlace>,
    /// A folder for what the agent must not forget.
    pub(super) folder: PathBuf,
    /// Authorities of servers and routers, if they speak TLS.
    pub(super) tls_ca: Option<PathBuf>,
    /// Whether the tuner runs on this host; it does not without this section.
    #[serde(default)]
    pub(super) tune: TuneEntry,
    /// How servers and routers get another version of the program; they do not without this section.
    pub(super) upgrade: Option<UpgradeEntry>,
    #[serde(default)]
    pub(super) server: Vec<ServerEntry>,
    #[serde(default)]
    pub(super) router: Vec<RouterEntry>,
    /// Controllers of the host, for `[upgrade]`.
    #[serde(default)]
    pub(super) controller: Vec<ControllerEntry>,
}

/// A controller of the host, which gets another version with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ControllerEntry {
    /// As in its certificate.
    pub(super) name: HostId,
    /// Where it serves its metrics and says whether it is ready.
    pub(super) address: String,
    /// Written by `control serve --pid-file`.
    pub(super) pid_file: PathBuf,
    /// The command that has the program of `[upgrade]` take its place; it may restart it.
    pub(super) reload: Vec<String>,
}

/// Whether and how the tuner runs on this host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TuneEntry {
    /// It looks what limits the host, once an hour and when asked.
    #[serde(default)]
    check: bool,
    /// It plans when asked, and changes nothing.
    #[serde(default)]
    plan: bool,
    /// It changes the host when it is told, as root.
    #[serde(default)]
    apply: bool,
    /// The program; the agent's own without it.
    binary: Option<PathBuf>,
    /// How long a look reads counters.
    seconds: Option<u32>,
}

/// Seconds of a look, unless the file says another number: as `tune check` without `--seconds`.
const LOOK_S: u32 = 30;
/// The most that are accepted: whoever waits for a look waits for five minutes.
const LOOK_S_MAX: u32 = 120;

impl TuneEntry {
    fn check(&self) -> Result<(), String> {
        if let Some(binary) = self.binary.as_ref().filter(|binary| !binary.is_absolute()) {
            return Err(format!(
                "[tune] binary: expected an absolute path, found {:?}",
                binary.display().to_string()
            ));
        }
        match self.seconds {
            Some(found @ (0 | LOOK_S_MAX..)) if found != LOOK_S_MAX => {
                Err(format!("[tune] seconds: expected 1 to {LOOK_S_MAX}, found {found}"))
            }
            _ => Ok(()),
        }
    }

    /// What the agent is told.
    pub(super) fn settings(&self) -> TuneSettings {
        let TuneEntry { check, plan, apply, ref binary, seconds } = *self;
        TuneSettings { check, plan, apply, binary: binary.clone(), seconds: seconds.unwrap_or(LOOK_S) }
    }
}

/// A server of the host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerEntry {
    pub(super) member: MemberId,
    pub(super) address: String,
    /// Where it serves its metrics.
    #[serde(default, deserialize_with = "metrics")]
    pub(super) metrics: Option<MetricsPlace>,
    /// Written by `serve -P` or `memcached -P`.
    pub(super) pid_file: PathBuf,
    /// The command that has the program of `[upgrade]` take over.
    pub(super) reload: Option<Vec<String>>,
    /// What it reads as --cluster-file, and nobody else writes.
    pub(super) cluster_file: Option<PathBuf>,
    /// The file with its certificate and key, which the agent renews.
    pub(super) certificate: Option<PathBuf>,
}

/// A router of the host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouterEntry {
    pub(super) name: RouterId,
    pub(super) view: ViewName,
    /// What it reads, and nobody else writes.
    pub(super) file: PathBuf,
    /// What the file has before the first order, if it is not there: a router does not start without a file.
    pub(super) first_text: Option<String>,
    pub(super) address: String,
    /// Where it serves its metrics.
    #[serde(default, deserialize_with = "metrics")]
    pub(super) metrics: Option<MetricsPlace>,
    pub(super) pid_file: PathBuf,
    /// The command that has the program of `[upgrade]` take over.
    pub(super) reload: Option<Vec<String>>,
    /// Where clients reach it, for lists of routers.
    pub(super) client_address: Option<String>,
    /// What it reads as --cluster-file, and nobody else writes.
    pub(super) cluster_file: Option<PathBuf>,
    /// The file with its certificate and key, which the agent renews.
    pub(super) certificate: Option<PathBuf>,
}

impl AgentFile {
    /// Reads it.
    pub(super) fn parse(text: &str) -> Result<AgentFile, String> {
        let file: AgentFile = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        let most = |what, found, most| match found > most {
            true => Err(format!("expected {most} {what} at most, found {found}")),
            false => Ok(()),
        };
        most("servers", file.server.len(), MEMBERS_PER_HOST_MAX)?;
        most("routers", file.router.len(), ROUTERS_PER_HOST_MAX)?;
        most("controllers", file.controllers.len(), CONTROLLERS_MAX)?;
        if file.controllers.is_empty() {
            return Err("expected the address of a controller at least".to_owned());
        }
        most("entries of controllers", file.controller.len(), CONTROLLERS_MAX)?;
        if file.server.is_empty() && file.router.is_empty() && file.controller.is_empty() {
            let expected = "expected a [[server]], a [[router]] or a [[controller]]";
            return Err(format!("{expected}: there is nothing to be beside"));
        }
        twice("controller", file.controller.iter().map(|one| one.name.as_str()))?;
        twice("server", file.server.iter().map(|one| one.member.as_str()))?;
        twice("router", file.router.iter().map(|one| one.name.as_str()))?;
        let files = file.router.iter().map(|one| &one.file);
        let files = files.chain(file.server.iter().filter_map(|one| one.cluster_file.as_ref()));
        let files = files.chain(file.router.iter().filter_map(|one| one.cluster_file.as_ref()));
        let files = files.chain(file.server.iter().filter_map(|one| one.certificate.as_ref()));
        let files = files.chain(file.router.iter().filter_map(|one| one.certificate.as_ref()));
        twice("file", files.map(|path| path.to_str().unwrap_or_default()))?;
        file.router.iter().try_for_each(RouterEntry::check)?;
        file.tune.check()?;
        file.check_upgrade()?;
        Ok(file)
    }
}

impl AgentFile {
    fn check_upgrade(&self) -> Result<(), String> {
        self.upgrade.as_ref().map_or(Ok(()), UpgradeEntry::check)?;
        let servers = self.server.iter().map(|one| (format!("server {}", one.member), &one.reload));
        let routers = self.router.iter().map(|one| (format!("router {}", one.name), &one.reload));
        let has_section = self.upgrade.is_some();
        servers
            .chain(routers)
            .try_for_each(|(of, words)| check_command(&of, words.as_deref(), has_section))?;
        self.controller.iter().try_for_each(|one| {
            let of = format!("controller {}", one.name);
            one.address.parse::<MetricsPlace>().map_err(|error| format!("{of}: address: {error}"))?;
            check_command(&of, Some(&one.reload), has_section)
        })
    }
}

impl RouterEntry {
    /// A router that tells clients of routers is one of them.
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        match &self.client_address {
            None if self.cluster_file.is_some() => {
                Err(format!("router {name}: expected client_address with cluster_file, found none"))
            }
            Some(address) if !is_client_address(address) => {
                Err(format!("router {name}: client_address: expected HOST:PORT, found {address:?}"))
            }
            _ => Ok(()),
        }
    }
}

fn twice<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the {what} {} is there twice", pair[0])),
        None => Ok(()),
    }
}

fn places<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ControlPlace>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

fn metrics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MetricsPlace>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let place = text.parse().map_err(|error| serde::de::Error::custom(format!("metrics: {error}")));
    place.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "host = \"h1\"\nzone = \"a\"\ncontrollers = [\"c1:7500\", \"unix:/run/c.sock\"]\nfolder = \"/var/lib/agent\"\n";
    const SERVER: &str =
        "[[server]]\nmember = \"m1\"\naddress = \"10.0.0.1:11211\"\npid_file = \"/run/m1.pid\"\n";
    const ROUTER: &str = "[[router]]\nname = \"r1\"\nview = \"main\"\nfile = \"/etc/r1.json\"\naddress = \"127.0.0.1:5000\"\n\
                          pid_file = \"/run/r1.pid\"\n";

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = AgentFile::parse(text).expect_err("refused");
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_file_names_what_is_on_the_host() {
        let file = AgentFile::parse(&[HEAD, SERVER, ROUTER].concat()).expect("a file");
        assert_eq!((file.server.len(), file.router.len(), file.controllers.len()), (1, 1, 2));
        assert_eq!(file.router[0].view.as_str(), "main");
    }

    #[test]
    fn the_tuner_runs_only_where_the_file_says_so() {
        let settings =
            |text: &str| AgentFile::parse(&[HEAD, text, SERVER].concat()).map(|file| file.tune.settings());
        let nothing = TuneSettings { check: false, plan: false, apply: false, binary: None, seconds: LOOK_S };
        assert_eq!(settings(""), Ok(nothing.clone()));
        assert_eq!(settings("[tune]\n"), Ok(nothing.clone()));
        let all =
            "[tune]\ncheck = true\nplan = true\napply = true\nbinary = \"/usr/bin/evenkeel\"\nseconds = 10\n";
        let binary = Some(PathBuf::from("/usr/bin/evenkeel"));
        assert_eq!(
            settings(all),
            Ok(TuneSettings { check: true, plan: true, apply: true, binary, seconds: 10 })
        );
        for (wrong, expected) in [
            ("binary = \"evenkeel\"", "[tune] binary: expected an absolute path, found \"evenkeel\""),
            ("seconds = 0", "[tune] seconds: expected 1 to 120, found 0"),
            ("seconds = 121", "[tune] seconds: expected 1 to 120, found 121"),
            ("chek = true", "chek"),
        ] {
            let error = settings(&format!("[tune]\n{wrong}\n")).expect_err("refused");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn programs_are_named_by_absolute_paths_and_reloads_need_them() {
        let section = "[upgrade]\nlink = \"/usr/local/lib/evenkeel/current\"\nprograms = \"/opt/evenkeel/{version}/evenkeel\"\n";
        let reload = "reload = [\"/usr/bin/systemctl\", \"reload\", \"evenkeel\"]\n";
        assert!(AgentFile::parse(&[HEAD, section, SERVER, reload, ROUTER, reload].concat()).is_ok());
        assert!(AgentFile::parse(&[HEAD, section, SERVER].concat()).is_ok());
        refused(&[HEAD, SERVER, reload].concat(), "server m1: expected [upgrade] with reload, found none");
        for (right, wrong, expected) in [
            ("\"/usr/local", "\"usr/local", "[upgrade] link: expected an absolute path, found usr/local/"),
            ("\"/opt/", "\"opt/", "[upgrade] programs: expected an absolute path, found opt/"),
            (
                "{version}",
                "now",
                "[upgrade] programs: expected a path with {version}, found /opt/evenkeel/now/",
            ),
            ("programs", "seconds = 0\nprograms", "[upgrade] seconds: expected 1 to 600, found 0"),
        ] {
            refused(&[HEAD, &section.replace(right, wrong), SERVER].concat(), expected);
        }
        for (wrong, expected) in [
            ("[]", "server m1: reload: expected a command, found an empty list"),
            ("[\"systemctl\"]", "reload: expected the absolute path of a program, found \"systemctl\""),
        ] {
            refused(&[HEAD, section, SERVER, &format!("reload = {wrong}\n")].concat(), expected);
        }
    }

    #[test]
    fn a_controller_of_the_host_needs_its_page_and_a_reload() {
        let section = "[upgrade]\nlink = \"/opt/current\"\nprograms = \"/opt/{version}\"\n";
        let controller = "[[controller]]\nname = \"c1\"\naddress = \"127.0.0.1:9151\"\npid_file = \"/run/c1.pid\"\n\
                          reload = [\"/usr/bin/systemctl\", \"restart\", \"evenkeel-control\"]\n";
        let file = AgentFile::parse(&[HEAD, section, controller].concat()).expect("a file");
        assert_eq!((file.server.len(), file.router.len(), file.controller.len()), (0, 0, 1));
        let expected = "controller c1: expected [upgrade] with reload, found none";
        refused(&[HEAD, controller].concat(), expected);
        for (right, wrong, expected) in [
            ("127.0.0.1:9151", "9151", "controller c1: address: expected HOST:PORT, found \"9151\""),
            (
                "/usr/bin/systemctl",
                "systemctl",
                "controller c1: reload: expected the absolute path of a program",
            ),
            ("reload", "reloads", "reloads"),
        ] {
            refused(&[HEAD, section, &controller.replace(right, wrong)].concat(), expected);
        }
        refused(&[HEAD, section, controller, controller].concat(), "the controller c1 is there twice");
    }

    #[test]
    fn what_would_be_half_understood_is_refused() {
        refused(HEAD, "nothing to be beside");
        refused(&[HEAD, SERVER, SERVER].concat(), "m1 is there twice");
        refused(&[HEAD, ROUTER, &ROUTER.replace("\"r1\"", "\"r2\"")].concat(), "/etc/r1.json is there twice");
        let with_file = |file: &str| format!("{SERVER}cluster_file = \"{file}\"\n");
        let other = with_file("/run/web").replace("\"m1\"", "\"m2\"");
        refused(&[HEAD, &with_file("/run/web"), &other].concat(), "/run/web is there twice");
        refused(&[HEAD, &with_file("/etc/r1.json"), ROUTER].concat(), "/etc/r1.json is there twice");
        let listed = |lines: &str| format!("{HEAD}{ROUTER}{lines}");
        refused(&listed("cluster_file = \"/run/r\"\n"), "expected client_address with cluster_file");
        for wrong in ["10.0.0.1", "10.0.0.1:0", ":5000", "10.0.0.1|x:5000", "a b:5000", "2001:db8::1:5000"] {
            refused(&listed(&format!("client_address = \"{wrong}\"\n")), "expected HOST:PORT");
        }
        for good in ["10.0.0.1:5000", "[2001:db8::1]:5000", "r1.example:5000"] {
            let text = listed(&format!("client_address = \"{good}\"\ncluster_file = \"/run/r\"\n"));
            assert!(AgentFile::parse(&text).is_ok(), "{good}");
        }
        refused(
            &listed("client_address = \"a:1\"\ncluster_file = \"/etc/r1.json\"\n"),
            "/etc/r1.json is there twice",
        );
        let shown = "certificate = \"/run/one.pem\"\n";
        refused(&[HEAD, SERVER, shown, ROUTER, shown].concat(), "/run/one.pem is there twice");
        refused(&[HEAD, SERVER, "adress = \"x\"\n"].concat(), "adress");
        for wrong in ["9150", "http://a:1", ":1", "a:0", "::1:5"] {
            let metrics = format!("metrics = \"{wrong}\"\n");
            refused(&[HEAD, SERVER, &metrics].concat(), "metrics: expected HOST:PORT");
        }
        let metrics = "metrics = \"127.0.0.1:9150\"\n";
        let file = AgentFile::parse(&[HEAD, SERVER, metrics, ROUTER, metrics].concat()).expect("a file");
        assert!(file.server[0].metrics.is_some() && file.router[0].metrics.is_some());
        refused(&[&HEAD.replace("c1:7500", "c1"), SERVER].concat(), "expected unix:PATH or HOST:PORT");
        refused(
            &[&HEAD.replace("[\"c1:7500\", \"unix:/run/c.sock\"]", "[]"), SERVER].concat(),
            "a controller",
        );
    }
}
