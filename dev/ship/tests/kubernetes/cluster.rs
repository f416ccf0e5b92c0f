//! A cluster of one node: its programs, their certificates, and how it is asked.

use super::{images, isolation};
use checkout::target_directory;
use os::clock::{Stopwatch, pause};
use serde_json::Value;
use ship::commands::said;
use ship::programs::HELM;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

/// The node's address.
const ADDRESS: &str = "10.88.0.1";

/// The API server's address for pods, which Kubernetes gives to the first Service. Nothing here leads Services to pods, so the API
/// server has this address itself.
const SERVICE_ADDRESS: &str = "10.96.0.1";

/// An operator who may do everything.
const ADMIN_TOKEN: &str = "admin-token";

/// Longest wait for anything: what takes longer never comes.
const PATIENCE: Duration = Duration::from_secs(180);

/// What runs, and where.
pub(super) struct Cluster {
    work: PathBuf,
    programs: PathBuf,
    children: Vec<Child>,
}

/// The etcd of this host, or the one that was unpacked for tests.
pub(super) fn etcd() -> Option<PathBuf> {
    let unpacked = target_directory().join("etcd/unpacked/usr/bin/etcd");
    [unpacked, "/usr/bin/etcd".into()].into_iter().find(|path| path.exists())
}

/// The folder of network plugins.
pub(super) fn network_plugins() -> Option<PathBuf> {
    ["/usr/lib/cni", "/opt/cni/bin"].into_iter().map(PathBuf::from).find(|path| path.join("bridge").exists())
}

/// Waits for something; `what` is told if it never comes.
#[track_caller]
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Stopwatch::start();
    while !is_so() {
        assert!(began.passed() < PATIENCE, "waited {} s for {what}", PATIENCE.as_secs());
        // Several programs have to agree, and none of them tells.
        pause(Duration::from_millis(200));
    }
}

impl Cluster {
    /// Starts all of it, in the namespaces of this process.
    pub(super) fn start(work: &Path) -> Cluster {
        // Found before other folders are in the place of those of the host.
        let plugins = network_plugins().expect("there are network plugins");
        isolation::enter(work);
        network();
        fs::create_dir_all(work.join("logs")).unwrap();
        let programs = ship::kubernetes::programs().expect("they are built");
        let mut cluster = Cluster { work: work.to_owned(), programs, children: Vec::new() };
        cluster.control_plane();
        cluster.node(&plugins);
        cluster
    }

    fn control_plane(&mut self) {
        let work = self.work.clone();
        let mut etcd = Command::new(etcd().expect("there is an etcd"));
        etcd.arg("--data-dir").arg(work.join("etcd")).args(["--listen-client-urls", "http://127.0.0.1:2379"]);
        etcd.args([
            "--advertise-client-urls",
            "http://127.0.0.1:2379",
            "--listen-peer-urls",
            "http://127.0.0.1:2380",
        ]);
        self.begin("etcd", &mut etcd);
        let key = work.join("accounts.key");
        said(Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048")).unwrap();
        fs::write(
            work.join("tokens.csv"),
            format!("{ADMIN_TOKEN},admin,1,system:masters\nnode-token,system:node:node1,2,system:nodes\n"),
        )
        .unwrap();
        let mut server = self.program("kube-apiserver");
        server.args([
            "--etcd-servers",
            "http://127.0.0.1:2379",
            "--bind-address",
            "0.0.0.0",
            "--secure-port",
            "443",
        ]);
        server.args(["--advertise-address", ADDRESS, "--service-cluster-ip-range", "10.96.0.0/16"]);
        server.args(["--service-account-issuer", "https://kubernetes.default.svc", "--allow-privileged"]);
        server
            .arg("--service-account-signing-key-file")
            .arg(&key)
            .arg("--service-account-key-file")
            .arg(&key);
        server.args(["--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction"]);
        server
            .arg("--cert-dir")
            .arg(work.join("certificates"))
            .arg("--token-auth-file")
            .arg(work.join("tokens.csv"));
        // No name server knows the name of the node, which it would ask for logs otherwise.
        server.args(["--kubelet-preferred-address-types", "InternalIP"]);
        self.begin("kube-apiserver", &mut server);
        for (name, token) in [("admin", ADMIN_TOKEN), ("node", "node-token")] {
            fs::write(work.join(format!("{name}.conf")), self.configuration(token)).unwrap();
        }
        until("the API server", || self.kubectl(&["get", "--raw", "/readyz"]).status.success());
        let mut controllers = self.program("kube-controller-manager");
        controllers.arg("--kubeconfig").arg(self.admin()).args(["--leader-elect=false"]);
        controllers
            .arg("--service-account-private-key-file")
            .arg(&key)
            .arg("--root-ca-file")
            .arg(self.authority());
        self.begin("kube-controller-manager", &mut controllers);
        let mut scheduler = self.program("kube-scheduler");
        scheduler.arg("--kubeconfig").arg(self.admin()).args(["--leader-elect=false"]);
        self.begin("kube-scheduler", &mut scheduler);
    }

    fn node(&mut self, plugins: &Path) {
        let work = self.work.clone();
        fs::create_dir_all(work.join("network")).unwrap();
        fs::write(work.join("network/10-bridge.conflist"), NETWORK).unwrap();
        fs::write(work.join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
        fs::write(work.join("containerd.toml"), containerd(plugins, &work)).unwrap();
        let mut containerd = Command::new("containerd");
        containerd.arg("--config").arg(work.join("containerd.toml"));
        self.begin("containerd", &mut containerd);
        until("containerd", || {
            Command::new("ctr").args(["version"]).output().is_ok_and(|output| output.status.success())
        });
        images::import(&work);
        fs::write(work.join("kubelet.yaml"), kubelet(&work)).unwrap();
        let mut kubelet = self.program("kubelet");
        kubelet
            .arg("--config")
            .arg(work.join("kubelet.yaml"))
            .arg("--kubeconfig")
            .arg(work.join("node.conf"));
        kubelet.args(["--hostname-override", "node1", "--node-ip", ADDRESS]);
        self.begin("kubelet", &mut kubelet);
        until("a node that is ready", || self.object("node", "node1").is_some_and(|node| is_ready(&node)));
    }

    /// Ends the programs. Namespaces and what is in them end with this process.
    pub(super) fn end(mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn program(&self, name: &str) -> Command {
        Command::new(self.programs.join(name))
    }

    /// Starts a program, whose log is a file of its name.
    fn begin(&mut self, name: &str, command: &mut Command) {
        let log = File::create(self.work.join("logs").join(name)).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.children.push(command.spawn().unwrap_or_else(|error| panic!("start {name}: {error}")));
    }

    fn admin(&self) -> PathBuf {
        self.work.join("admin.conf")
    }

    /// The certificate of the API server with its authority, which it has made itself.
    pub(super) fn authority(&self) -> PathBuf {
        self.work.join("certificates/apiserver.crt")
    }

    /// A file with a token for everything.
    pub(super) fn token(&self) -> PathBuf {
        let file = self.work.join("token");
        fs::write(&file, ADMIN_TOKEN).unwrap();
        file
    }

    /// The URL of the API server.
    pub(super) fn url(&self) -> String {
        format!("https://{ADDRESS}:443")
    }

    /// A file of this cluster.
    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn configuration(&self, token: &str) -> String {
        let (server, authority) = (self.url(), self.authority());
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": server, "certificate-authority": authority } }],
            "users": [{ "name": "u", "user": { "token": token } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        })
        .to_string()
    }

    /// A kubectl of an operator who may do everything.
    pub(super) fn kubectl_command(&self, words: &[&str]) -> Command {
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(self.admin()).args(words);
        kubectl
    }

    /// Runs kubectl.
    pub(super) fn kubectl(&self, words: &[&str]) -> Output {
        self.kubectl_command(words).output().expect("kubectl")
    }

    /// Runs kubectl, which has to succeed; returns what it prints.
    #[track_caller]
    pub(super) fn told(&self, words: &[&str]) -> String {
        let output = self.kubectl(words);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {}: {out}{err}", words.join(" "));
        out.into_owned()
    }

    /// Runs helm; returns whether it succeeded, and all that it printed.
    pub(super) fn helm(&self, words: &[&str]) -> (bool, String) {
        let mut helm = Command::new(HELM.path().expect("it is built"));
        let output = helm.arg("--kubeconfig").arg(self.admin()).args(words).output().expect("helm");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// An object, if it is there; of a namespace as `NAMESPACE/NAME`.
    pub(super) fn object(&self, kind: &str, name: &str) -> Option<Value> {
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        let output = self.kubectl(&["get", kind, name, "--namespace", namespace, "--output", "json"]);
        serde_json::from_slice(&output.stdout).ok()
    }
}

/// Whether a node or a pod has the condition.
pub(super) fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// A network of its own for the node: an interface with the default route that an API server looks for, and the address for pods.
fn network() {
    let ip = |words: &str| said(Command::new("ip").args(words.split(' '))).unwrap();
    ip("link set lo up");
    ip("link add node0 type veth peer name node1");
    ip("link set node0 up");
    ip("link set node1 up");
    ip(&format!("address add {ADDRESS}/24 dev node0"));
    ip("route add default via 10.88.0.254 dev node0");
    ip(&format!("address add {SERVICE_ADDRESS}/32 dev lo"));
}

/// Pods have addresses of a bridge.
const NETWORK: &str = r#"{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": false,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.89.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    }
  ]
}"#;

fn containerd(plugins: &Path, work: &Path) -> String {
    format!(
        r#"version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{network}"
"#,
        pause = images::PAUSE,
        plugins = plugins.display(),
        network = work.join("network").display(),
    )
}

/// JSON is YAML.
fn kubelet(work: &Path) -> String {
    serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        // The API server asks it for logs, and has no certificate to show. Nobody else reaches its network.
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", isolation::CONTROL_GROUP),
        "failCgroupV1": false,
        "failSwapOn": false,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": work.join("resolv.conf"),
        "evictionHard": { "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": false,
    })
    .to_string()
}
