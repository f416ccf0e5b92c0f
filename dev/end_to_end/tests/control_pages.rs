//! Pages about the control plane, typed as they stand: a fleet of several hosts and what its tuners find, more slots in a cluster on one machine, and
//! another version of the program and a standard of its tuning on one.
//!
//! What stands for something else, and nothing besides:
//!
//! | in the page | here |
//! |---|---|
//! | a host | a network namespace with its address, a home, and folders of its own at `/var/lib/evenkeel` and `/run/evenkeel` |
//! | `scp FILES ADDRESS:` | `cp` into the home of that host |
//! | `nc ADDRESS PORT` | the same by bash, for not every machine has one |
//! | `vm.swappiness`, which is one for all hosts here | a file of the test: what the tuner sets is each host's own |
//! | a shell for each command that does not return | it is started, and waited for until its port answers |

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use checkout::target_directory;
use end_to_end::clock;
use end_to_end::fleet::etcd_program;
use end_to_end::network::{in_namespaces, ip, unique_name};
use end_to_end::subject;
use end_to_end::typed::{TypedCommand, commands_of};

/// Commands that do not return, and the port at which others reach what they start.
const STAYS: [(&str, Option<u16>); 6] = [
    ("etcd ", Some(2379)),
    ("evenkeel control serve ", Some(7500)),
    ("evenkeel serve ", Some(11211)),
    ("evenkeel route ", Some(5000)),
    ("evenkeel agent ", None),
    ("evenkeel up ", None),
];
const SCP: &str = "#!/bin/sh\nfor to; do :; done\nwhile [ $# -gt 1 ]; do cp \"$1\" \"$HOMES/${to%:}/home/\" || exit 1; shift; done\n";
const NC: &str = "#!/bin/bash\nexec 3<>\"/dev/tcp/$1/$2\" && cat >&3 && exec cat <&3\n";
/// Places for what each host puts there, and a file in place of a setting that is not a host's own.
const PLACES: &str = "mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/evenkeel /run/evenkeel && cat /proc/sys/vm/swappiness > /var/lib/swappiness \
                      && mount --bind /var/lib/swappiness /proc/sys/vm/swappiness";
/// The longest time of a command that returns: one that waits for something must fail.
const SECONDS_MAX: &str = "300";

/// Somebody who types a page.
struct Typist {
    folder: PathBuf,
    /// What each host's shell has exported.
    exports: BTreeMap<String, Vec<String>>,
    /// Where each host is, if they are apart.
    addresses: BTreeMap<String, String>,
    staying: Vec<(String, Child)>,
    began: Instant,
}

impl Typist {
    fn new() -> Typist {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = target_directory().join("tmp").join(format!("typed-{}-{number}", unique_name()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).expect("a folder");
        let folder = folder.canonicalize().expect("a folder");
        let programs = folder.join("bin");
        symlink(subject::router().get_program(), programs.join("evenkeel")).expect("a link");
        if let Some(etcd) = etcd_program() {
            symlink(etcd, programs.join("etcd")).expect("a link");
        }
        for (name, script) in [("scp", SCP), ("nc", NC)] {
            fs::write(programs.join(name), script).expect("a file");
            fs::set_permissions(programs.join(name), PermissionsExt::from_mode(0o755)).expect("a program");
        }
        Typist {
            folder,
            exports: BTreeMap::new(),
            addresses: BTreeMap::new(),
            staying: Vec::new(),
            began: clock::now(),
        }
    }

    /// Makes the hosts that a page gives an `ADDRESS`, on one network.
    fn make_hosts(&mut self, commands: &[TypedCommand]) {
        ip(&["link", "add", "main", "type", "bridge"]);
        ip(&["link", "set", "main", "up"]);
        ip(&["address", "add", "10.0.255.254/16", "dev", "main"]);
        for command in commands {
            let address = command.text.split(' ').find_map(|word| word.strip_prefix("ADDRESS="));
            let (Some(address), [host]) = (address, &*command.hosts) else { continue };
            for folder in ["home", "lib", "run"] {
                fs::create_dir_all(self.folder.join(address).join(folder)).expect("a folder");
            }
            ip(&["netns", "add", host]);
            ip(&[
                "link", "add", host, "master", "main", "type", "veth", "peer", "name", "eth0", "netns", host,
            ]);
            ip(&["link", "set", host, "up"]);
            ip(&["-n", host, "address", "add", &format!("{address}/16"), "dev", "eth0"]);
            ip(&["-n", host, "link", "set", "eth0", "up"]);
            ip(&["-n", host, "link", "set", "lo", "up"]);
            self.addresses.insert(host.clone(), address.to_owned());
        }
        // In a mount namespace of this test: the places exist, and each host puts its own there.
        let made = Command::new("sh").args(["-c", PLACES]).status();
        assert!(made.expect("sh").success());
    }

    /// A shell on a host, in its home, behind these words.
    fn shell(&self, before: &[&str], host: &str, command: &str) -> Command {
        let exports = self.exports.get(host).map(|lines| lines.join("\n")).unwrap_or_default();
        let mut words = before.to_vec();
        let mut script = format!("{exports}\n{command}");
        if let Some(address) = self.addresses.get(host) {
            words.extend(["ip", "netns", "exec", host, "unshare", "--mount"]);
            let own = self.folder.join(address);
            let own = own.display();
            script = format!(
                "mount --bind {own}/lib /var/lib/evenkeel && mount --bind {own}/run /run/evenkeel && cd {own}/home || exit 1\n{script}"
            );
        }
        words.extend(["sh", "-c", &script]);
        let mut shell = Command::new(words[0]);
        shell.args(&words[1..]).current_dir(&self.folder).stdin(Stdio::null());
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        shell.env("HOMES", &self.folder).env_remove("EVENKEEL_CONTROL");
        shell
    }

    /// Types a command on each of its hosts.
    #[track_caller]
    fn type_command(&mut self, command: &TypedCommand) {
        let begins = command.text.lines().next().unwrap_or_default();
        // Who waits for a page wants to see what it waits for.
        eprintln!("{:7.2?} {}$ {begins}", self.began.elapsed(), command.hosts.join(" "));
        let here = [String::new()];
        let hosts = if command.hosts.is_empty() { &here[..] } else { &command.hosts };
        if command.text.starts_with("export ") {
            for host in hosts {
                self.exports.entry(host.clone()).or_default().push(command.text.clone());
            }
            return;
        }
        if let Some((_, port)) = STAYS.iter().find(|(begins, _)| command.text.starts_with(begins)) {
            hosts.iter().for_each(|host| self.start(host, &command.text));
            // They may need each other.
            return hosts.iter().for_each(|host| self.wait_for(host, *port));
        }
        for host in hosts {
            let output = self.run(host, &command.text);
            let missing = command.missing(&output);
            assert!(missing.is_none(), "{host}$ {}\nno {missing:?} in\n{output}", command.text);
        }
    }

    /// What a command says that must succeed.
    #[track_caller]
    fn run(&self, host: &str, command: &str) -> String {
        let output =
            self.shell(&["timeout", SECONDS_MAX], host, command).output().expect("timeout of coreutils");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{host}$ {command}\n{said}{complained}\n{}", self.logs());
        said + &complained
    }

    fn start(&mut self, host: &str, command: &str) {
        let log = File::options().create(true).append(true).open(self.log(host)).expect("a log");
        let mut shell = self.shell(&[], host, &format!("exec {command}"));
        shell.stdout(log.try_clone().expect("a log")).stderr(log);
        self.staying.push((host.to_owned(), shell.spawn().expect("a shell")));
    }

    #[track_caller]
    fn wait_for(&mut self, host: &str, port: Option<u16>) {
        let Some(port) = port else { return };
        let address = format!("{}:{port}", self.addresses[host]);
        let answers = clock::wait_for(|| TcpStream::connect(&address).ok());
        assert!(answers.is_some(), "nothing listens at {address}: {}", self.logs());
    }

    fn log(&self, host: &str) -> PathBuf {
        self.folder.join(format!("{host}.log"))
    }

    fn logs(&self) -> String {
        let hosts: BTreeSet<&String> = self.staying.iter().map(|(host, _)| host).collect();
        let last =
            |text: String| text[text.floor_char_boundary(text.len().saturating_sub(1500))..].to_owned();
        let logs = hosts.into_iter().map(|host| {
            format!("{host}.log: {}\n", last(fs::read_to_string(self.log(host)).unwrap_or_default()))
        });
        logs.collect()
    }

    /// Ends what stays on these hosts.
    fn end(&mut self, is_meant: impl Fn(&str) -> bool) {
        for (_, child) in self.staying.iter_mut().filter(|(host, _)| is_meant(host)) {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.staying.retain(|(host, _)| !is_meant(host));
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        self.end(|_| true);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_fleet_of_several_hosts_is_made_by_its_page() {
    if !in_namespaces("control_pages::a_fleet_of_several_hosts_is_made_by_its_page") {
        return;
    }
    if etcd_program().is_none() {
        return eprintln!("left out: there is no etcd (Debian: etcd-server)");
    }
    let commands = commands_of("docs/control/fleet.md", None);
    let mut typist = Typist::new();
    typist.make_hosts(&commands);
    commands.iter().for_each(|command| typist.type_command(command));
    for heading in ["## What limits the hosts", "## What the tuner would change", "## Carrying it out"] {
        let commands = commands_of("docs/control/tuning.md", Some(heading));
        commands.iter().for_each(|command| typist.type_command(command));
    }

    // "Routers and servers go on with what is on their disks."
    typist.end(|host| host.starts_with('c'));
    typist.type_command(commands.last().expect("the last one asks routers"));
}

#[test]
fn a_cluster_on_one_machine_gets_more_slots_and_fewer_by_its_page() {
    let commands = commands_of("docs/control/guide.md", Some("### More slots, or fewer"));
    let mut typist = Typist::new();
    let (up, rest) = commands.split_first().expect("commands");
    // In the folder of the test, and smaller.
    typist.start("", &format!("{} --memory 16", up.text));
    let log = typist.log("");
    let is_up = || fs::read_to_string(&log).is_ok_and(|said| said.contains("Ctrl-C ends all."));
    assert!(clock::wait_for(|| is_up().then_some(())).is_some(), "{}", typist.logs());
    let servers = |typist: &Typist| file_of(typist, "cluster/route.json").matches("127.0.0.1:").count();
    assert_eq!(servers(&typist), 3);
    let begun_with = file_of(&typist, "cluster/policy.toml");
    let mut seen = Vec::new();
    for command in rest {
        typist.type_command(command);
        if command.text.contains("policy show") {
            assert_eq!(
                file_of(&typist, "policy.toml"),
                begun_with,
                "`up` has written what it has put in force"
            );
        }
        seen.push(servers(&typist));
    }
    assert!(seen.contains(&4), "{seen:?}");
    assert_eq!(seen.last(), Some(&3), "{seen:?}");
}

#[test]
fn a_version_goes_through_one_machine_by_its_page() {
    type_on_one_machine("docs/control/upgrades.md", "try-upgrade");
}

#[test]
fn a_host_is_tuned_before_it_gets_a_slot_by_its_page() {
    type_on_one_machine("docs/control/standards.md", "try-standard");
}

/// Types the commands of a page for one machine, in a place that nobody else writes to.
#[track_caller]
fn type_on_one_machine(page: &str, name: &str) {
    let commands = commands_of(page, Some("## Try it on one machine"));
    let place = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    let mut typist = Typist::new();
    for mut command in commands {
        let elsewhere = |text: &str| text.replace(&format!("/tmp/{name}"), &place.display().to_string());
        command.text = elsewhere(&command.text);
        command.shown.iter_mut().for_each(|line| *line = elsewhere(line));
        // Also one that is started through a link.
        let is_agent = command.text.split_whitespace().nth(1) == Some("agent");
        if is_agent || STAYS.iter().any(|(begins, _)| command.text.starts_with(begins)) {
            typist.start("", &command.text);
        } else {
            typist.type_command(&command);
        }
        // A person who has started the agent looks for the next command meanwhile.
        if is_agent {
            let check = format!("evenkeel control tune check --at unix:{}/control", place.display());
            let knows = || {
                let output = typist.shell(&["timeout", SECONDS_MAX], "", &check).output().expect("timeout");
                String::from_utf8_lossy(&output.stdout).contains("does not allow it").then_some(())
            };
            assert!(clock::wait_for(knows).is_some(), "{}", typist.logs());
        }
    }
    fs::remove_dir_all(&place).expect("it is there");
}

fn file_of(typist: &Typist, name: &str) -> String {
    fs::read_to_string(typist.folder.join(name)).expect("a file")
}

/// The pages are found where the tests look for them.
#[test]
fn every_command_that_stays_is_in_a_page() {
    let fleet = commands_of("docs/control/fleet.md", None);
    let guide = commands_of("docs/control/guide.md", Some("### More slots, or fewer"));
    for (begins, _) in STAYS {
        assert!(fleet.iter().chain(&guide).any(|command| command.text.starts_with(begins)), "{begins}");
    }
}
