//! Rendered pods that run here as processes: what Kubernetes would do with them, as far as their program notices it.
//!
//! | of a pod | here |
//! |---|---|
//! | its network | a network namespace with its address, on one bridge |
//! | names of a cluster | a file /etc/hosts |
//! | the image | a root of each container with this machine's libraries, and the program |
//! | a volume | a folder, mounted at the same paths; a certificate of cert-manager's driver is one of openssl's |
//! | user and group | the same numbers |
//! | `$(NAME)`, fields of the pod | replaced as the kubelet does |
//! | a native sidecar | started first, and waited for if it has a startup probe |
//! | a process that ends | started again, while its probe is waited for |

use super::super::{Rendered, containers, elements, pod, text};
use end_to_end::clock;
use end_to_end::network::ip;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// User and group of the chart's pods.
const USER: u32 = 11211;
/// The network of all pods, in which the test is the first host.
const NETWORK: &str = "10.88.0";

/// Pods of one namespace of a cluster.
pub(super) struct Cluster<'a> {
    rendered: &'a Rendered,
    program: PathBuf,
    folder: PathBuf,
    /// Last numbers of addresses.
    addresses: BTreeMap<String, usize>,
    running: Vec<Process>,
}

struct Process {
    pod: String,
    container: String,
    child: Child,
}

impl<'a> Cluster<'a> {
    /// A network with a place for each pod of the StatefulSets, and an authority. `others` are hosts of further names.
    pub(super) fn new(rendered: &'a Rendered, program: PathBuf, others: &[&str]) -> Cluster<'a> {
        let folder = std::env::temp_dir().join("pods");
        fs::create_dir_all(&folder).expect("a folder");
        let mut cluster =
            Cluster { rendered, program, folder, addresses: BTreeMap::new(), running: Vec::new() };
        ip(&["link", "add", "main", "type", "bridge"]);
        ip(&["link", "set", "main", "up"]);
        ip(&["address", "add", &format!("{NETWORK}.1/24"), "dev", "main"]);
        let mut hosts = String::from("127.0.0.1 localhost\n");
        let mut places: Vec<(String, String)> =
            others.iter().map(|name| ("etcd".to_owned(), (*name).to_owned())).collect();
        for set in rendered.of_kind("StatefulSet") {
            let [name, service] = [&set["metadata"]["name"], &set["spec"]["serviceName"]].map(text);
            rendered.object("Service", service);
            for number in 0..set["spec"]["replicas"].as_i64().expect("a number") {
                let pod = format!("{name}-{number}");
                let full = format!("{pod}.{service}.shop.svc.cluster.local");
                places.push((pod, full));
            }
        }
        for (pod, full) in places {
            if !cluster.addresses.contains_key(&pod) {
                cluster.make_network(&pod);
            }
            hosts += &format!("{} {full}\n", cluster.address(&pod));
        }
        fs::write(cluster.folder.join("hosts"), hosts).expect("write names");
        fs::write(cluster.folder.join("nsswitch.conf"), "hosts: files\n").expect("write where names are");
        openssl(
            &cluster.folder,
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=fleet -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -keyout ca.key -out ca.crt",
        );
        cluster
    }

    fn make_network(&mut self, host: &str) {
        let number = self.addresses.len() + 10;
        self.addresses.insert(host.to_owned(), number);
        // Names of interfaces are short.
        let link = format!("v{number}");
        ip(&["netns", "add", host]);
        ip(&["link", "add", &link, "master", "main", "type", "veth", "peer", "name", "eth0", "netns", host]);
        ip(&["link", "set", &link, "up"]);
        ip(&["-n", host, "address", "add", &format!("{NETWORK}.{number}/24"), "dev", "eth0"]);
        ip(&["-n", host, "link", "set", "eth0", "up"]);
        ip(&["-n", host, "link", "set", "lo", "up"]);
    }

    /// Whether clients of routers do.
    pub(super) fn speaks_tls(&self) -> bool {
        let router = pod(self.rendered.object("StatefulSet", "cache-evenkeel-router"));
        elements(&router["volumes"]).iter().any(|volume| volume["name"] == "evenkeel-certificate")
    }

    /// The address of a pod, or of a host of other names.
    pub(super) fn address(&self, host: &str) -> String {
        format!("{NETWORK}.{}", self.addresses[host])
    }

    /// A certificate of the authority, with the names that the extension lists.
    pub(super) fn certificate(&self, folder: &Path, names: &str, usage: &str) {
        fs::create_dir_all(folder).expect("a folder");
        let authority = self.folder.join("ca");
        let authority = authority.display();
        openssl(
            folder,
            &format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj / -CA {authority}.crt -CAkey {authority}.key -addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage={usage} -addext subjectAltName=critical,{names} -keyout tls.key -out tls.crt"
            ),
        );
        fs::copy(self.folder.join("ca.crt"), folder.join("ca.crt")).expect("copy the authority");
        chown(folder.join("tls.key"), Some(0), Some(USER)).expect("give the key to the group of the pod");
        fs::set_permissions(folder.join("tls.key"), PermissionsExt::from_mode(0o640)).expect("set a mode");
    }

    /// The object that makes a pod, and its pod.
    fn spec(&self, name: &str) -> (&'a Value, &'a Value) {
        let (set, _) = name.rsplit_once('-').expect("a pod has a number");
        let set = self.rendered.object("StatefulSet", set);
        (set, pod(set))
    }

    /// Starts a pod: its volumes are new, but for those of its claims.
    pub(super) fn start(&mut self, name: &str) {
        let (set, pod) = self.spec(name);
        for volume in elements(&pod["volumes"]) {
            let _ = fs::remove_dir_all(self.volume(name, text(&volume["name"])));
            self.fill(name, volume);
        }
        for claim in elements(&set["spec"]["volumeClaimTemplates"]) {
            let folder = self.volume(name, text(&claim["metadata"]["name"]));
            fs::create_dir_all(&folder).expect("a folder");
            chown(&folder, Some(0), Some(USER)).expect("give a volume to the group of the pod");
            fs::set_permissions(&folder, PermissionsExt::from_mode(0o770)).expect("set a mode");
        }
        for container in containers(pod) {
            self.start_container(name, container);
            self.wait_for(name, container, "startupProbe");
        }
    }

    fn start_container(&mut self, name: &str, container: &Value) {
        let words: Vec<String> =
            elements(&container["args"]).iter().map(|word| text(word).to_owned()).collect();
        let command = self.command(name, container, &words);
        self.spawn(name, text(&container["name"]), command);
    }

    fn spawn(&mut self, pod: &str, container: &str, mut command: Command) {
        let log = self.folder.join(format!("{pod}-{container}.log"));
        let log = File::options().create(true).append(true).open(log).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let child = command.spawn().expect("ip of iproute2");
        self.running.push(Process { pod: pod.to_owned(), container: container.to_owned(), child });
    }

    /// Starts a container again whose process has ended: a controller ends if it begins while etcd does not answer.
    fn start_again(&mut self, name: &str, container: &Value) {
        let is_it = |process: &&mut Process| process.pod == name && container["name"] == *process.container;
        let process = self.running.iter_mut().find(is_it).expect("it was started");
        if process.child.try_wait().expect("it is ours").is_some() {
            self.running.retain(|process| process.pod != name || container["name"] != *process.container);
            self.start_container(name, container);
        }
    }

    /// Kills a container's process, and starts it again in its pod, as the kubelet does.
    pub(super) fn restart(&mut self, name: &str, container: &str) {
        self.kill(|process| process.pod == name && process.container == container);
        let mut found = containers(self.spec(name).1);
        let found = found.find(|found| found["name"] == container).expect("it is there");
        self.start_container(name, found);
        self.wait_for(name, found, "startupProbe");
    }

    /// Waits for what a pod's readiness probes ask.
    pub(super) fn wait_until_ready(&mut self, name: &str) {
        for container in containers(self.spec(name).1) {
            self.wait_for(name, container, "readinessProbe");
        }
    }

    fn wait_for(&mut self, name: &str, container: &Value, probe: &str) {
        let http = &container[probe]["httpGet"];
        if http.is_null() {
            return;
        }
        let port = elements(&container["ports"]).iter().find(|port| port["name"] == http["port"]);
        let port =
            port.expect("a probe asks a port of its container")["containerPort"].as_i64().expect("a number");
        let (address, path) = (format!("{}:{port}", self.address(name)), text(&http["path"]));
        let answers = clock::wait_for(|| {
            self.start_again(name, container);
            is_ok(&address, path).then_some(())
        });
        let container = text(&container["name"]);
        assert!(answers.is_some(), "{name}, {container}: {probe} fails\n{}", self.said());
    }

    /// Kills all processes of a pod at once, as a lost node does.
    pub(super) fn lose(&mut self, name: &str) {
        self.kill(|process| process.pod == name);
    }

    #[track_caller]
    fn kill(&mut self, is_meant: impl Fn(&Process) -> bool) {
        let meant: Vec<&mut Process> = self.running.iter_mut().filter(|process| is_meant(process)).collect();
        assert!(!meant.is_empty(), "there is nothing to kill");
        for process in meant {
            process.child.kill().expect("it is ours");
            process.child.wait().expect("it is ours");
        }
        self.running.retain(|process| !is_meant(process));
    }

    /// What a command says that is executed in the first container of a pod, as by `kubectl exec`.
    pub(super) fn execute(&self, name: &str, command: &str) -> Output {
        let container = &self.spec(name).1["containers"][0];
        let words = ["sh", "-c", command].map(str::to_owned);
        let mut command = self.prepared(name, container, &words);
        command.output().expect("ip of iproute2")
    }

    /// The program with these words, in a container of a pod.
    fn command(&self, name: &str, container: &Value, words: &[String]) -> Command {
        let variables = self.variables(name, container);
        let expand = |word: &String| {
            variables
                .iter()
                .fold(word.clone(), |word, (name, value)| word.replace(&format!("$({name})"), value))
        };
        let mut all = vec!["evenkeel".to_owned()];
        all.extend(words.iter().map(expand));
        self.prepared(name, container, &all)
    }

    /// A command in a root of its own with the container's mounts, user and environment.
    fn prepared(&self, name: &str, container: &Value, words: &[String]) -> Command {
        let root = self.folder.join(name).join("roots").join(text(&container["name"]));
        let mut mounts = vec![
            (PathBuf::from("/usr"), "usr".to_owned()),
            (PathBuf::from("/proc"), "proc".to_owned()),
            (PathBuf::from("/dev"), "dev".to_owned()),
        ];
        for folder in ["usr", "proc", "dev", "etc", "program", "tmp"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        for link in ["lib", "lib64", "bin"] {
            // It is there if another command was prepared before.
            let _ = symlink(format!("usr/{link}"), root.join(link));
        }
        for (from, to) in [
            (self.folder.join("hosts"), "etc/hosts"),
            (self.folder.join("nsswitch.conf"), "etc/nsswitch.conf"),
            (self.program.clone(), "program/evenkeel"),
        ] {
            File::options().create(true).append(true).open(root.join(to)).expect("a place for a file");
            mounts.push((from, to.to_owned()));
        }
        for mount in elements(&container["volumeMounts"]) {
            let to = text(&mount["mountPath"]).trim_start_matches('/').to_owned();
            fs::create_dir_all(root.join(&to)).expect("a folder");
            mounts.push((self.volume(name, text(&mount["name"])), to));
        }
        let root = root.display();
        let mounts: String = mounts
            .iter()
            .map(|(from, to)| format!("mount --bind {} {root}/{to} && ", from.display()))
            .collect();
        let script = format!("{mounts}exec chroot --userspec={USER}:{USER} --groups= {root} env -i \"$@\"");
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            name,
            "unshare",
            "--mount",
            "sh",
            "-c",
            &script,
            "sh",
            "PATH=/program:/usr/bin",
        ]);
        command.args(self.variables(name, container).iter().map(|(name, value)| format!("{name}={value}")));
        command.args(words);
        command
    }

    fn variables(&self, name: &str, container: &Value) -> Vec<(String, String)> {
        let variables = elements(&container["env"]).iter().map(|variable| {
            let from = &variable["valueFrom"];
            let value = match (variable["value"].as_str(), from["fieldRef"]["fieldPath"].as_str()) {
                (Some(value), _) => value.to_owned(),
                (_, Some("metadata.name")) => name.to_owned(),
                (_, Some("status.podIP")) => self.address(name),
                // The one password of the tests.
                _ if !from["secretKeyRef"].is_null() => "secret".to_owned(),
                _ => panic!("a variable has {variable}"),
            };
            (text(&variable["name"]).to_owned(), value)
        });
        variables.collect()
    }

    fn volume(&self, pod: &str, name: &str) -> PathBuf {
        self.folder.join(pod).join("volumes").join(name)
    }

    fn fill(&self, pod: &str, volume: &Value) {
        let volume_folder = self.volume(pod, text(&volume["name"]));
        // Files are links into a folder that a change would replace in one step.
        let folder = volume_folder.join("..first");
        fs::create_dir_all(&folder).expect("a folder");
        if let Some(name) = volume["configMap"]["name"].as_str() {
            let map = self.rendered.object("ConfigMap", name);
            for (name, contents) in map["data"].as_object().expect("it has data") {
                fs::write(folder.join(name), text(contents)).expect("write a file of a ConfigMap");
            }
        } else if let Some(secret) = volume["secret"]["secretName"].as_str() {
            let names = match secret {
                "etcd-certificate" => "DNS:control",
                _ => "DNS:*.cache-evenkeel-headless.shop.svc.cluster.local,DNS:cache-evenkeel",
            };
            self.certificate(&folder, names, "serverAuth,clientAuth");
        } else if volume["csi"]["driver"] == "csi.cert-manager.io" {
            let attribute =
                |name: &str| text(&volume["csi"]["volumeAttributes"][format!("csi.cert-manager.io/{name}")]);
            let uri = attribute("uri-sans").replace("${POD_NAME}", pod);
            let usages = attribute("key-usages").split(',');
            let usages: Vec<&str> = usages
                .filter_map(|usage| match usage {
                    "server auth" => Some("serverAuth"),
                    "client auth" => Some("clientAuth"),
                    _ => None,
                })
                .collect();
            self.certificate(&folder, &format!("URI:{uri}"), &usages.join(","));
        } else {
            assert!(!volume["emptyDir"].is_null(), "a volume is {volume}");
            fs::remove_dir(&folder).expect("it is empty");
            fs::set_permissions(&volume_folder, PermissionsExt::from_mode(0o777)).expect("set a mode");
            return;
        }
        symlink("..first", volume_folder.join("..data")).expect("a link");
        for entry in fs::read_dir(&folder).expect("list a folder").flatten() {
            let name = entry.file_name();
            symlink(Path::new("..data").join(&name), volume_folder.join(&name)).expect("a link");
        }
    }

    /// A process of another program on its host, beside the pods.
    pub(super) fn start_other(&mut self, host: &str, words: &[&str]) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", host]).args(words).current_dir(&self.folder);
        self.spawn(host, "other", command);
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The ends of all logs.
    pub(super) fn said(&self) -> String {
        let entries =
            fs::read_dir(&self.folder).expect("list the folder").flatten().map(|entry| entry.path());
        let mut logs: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
        logs.sort();
        let shown = logs.iter().map(|path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let end = text.floor_char_boundary(text.len().saturating_sub(2000));
            format!("{}:\n{}\n", path.file_name().unwrap_or_default().to_string_lossy(), &text[end..])
        });
        shown.collect()
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        for process in &mut self.running {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// Runs openssl in a folder.
fn openssl(folder: &Path, words: &str) {
    let output = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
    let output = output.expect("openssl (Debian: openssl)");
    assert!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whether a page answers with 200.
fn is_ok(address: &str, path: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(clock::PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}
