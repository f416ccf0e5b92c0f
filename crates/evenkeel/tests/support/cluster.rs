//! An API server of Kubernetes in a few lines, with a kubelet whose containers move on whenever somebody looks at their pod.
//!
//! What it answers was taken from a real one (1.34): objects, refusals, the order in which the fields of a pod change when its image
//! does. `cargo test -p ship kubernetes` has the real one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

/// Items of each server at the beginning.
pub(crate) const ITEMS: u64 = 1000;

/// The checksum of the flags at the beginning.
pub(crate) const FLAGS: &str = "aaaa";

/// A digest.
pub(crate) const SUM: &str = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What becomes of containers of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// The server starts, with the items of the one before.
    Good,
    /// No registry has it.
    Unknown,
    /// The server ends at once.
    Crashes,
    /// The server starts, and is never ready.
    Hangs,
    /// The server starts without the items of the one before.
    Empty,
    /// The server does not say which items it has kept.
    Silent,
}

/// A cluster with one StatefulSet, `cache` in the namespace `ns`.
#[derive(Clone)]
pub(crate) struct Cluster {
    state: Arc<Mutex<ClusterState>>,
    pub(crate) address: SocketAddr,
}

/// How a request is answered in place of the usual answer: by its method and path, and how many requests there were before.
pub(crate) type Answers = Box<dyn FnMut(&str, &str, usize) -> Option<Reply> + Send>;

/// An answer that is not the usual one.
pub(crate) enum Reply {
    /// A status with a body.
    Says(u16, String),
    /// The connection is closed without an answer.
    Closes,
    /// The request is carried out, and the connection is closed without an answer.
    ClosesAfterwards,
}

pub(crate) struct ClusterState {
    pub(crate) pods: BTreeMap<String, FakePod>,
    pub(crate) image: String,
    pub(crate) flags: Option<String>,
    pub(crate) strategy: &'static str,
    /// The file of flags as it is in the pods, after so many looks at a pod.
    pub(crate) flags_in_pods: (String, usize),
    pub(crate) images: BTreeMap<String, Image>,
    pub(crate) answers: Option<Answers>,
    pub(crate) requests: Vec<String>,
    /// The most pods that were not ready at a time.
    pub(crate) unready_max: usize,
    version: u64,
}

/// A pod, and the container that the kubelet runs in it.
pub(crate) struct FakePod {
    pub(crate) image: String,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) uid: u64,
    generation: u64,
    observed: u64,
    version: u64,
    /// The image that the container was made of.
    made_of: String,
    pub(crate) container: u64,
    pub(crate) is_running: bool,
    pub(crate) is_ready: bool,
    waits: Option<(&'static str, String)>,
    /// Looks since the kubelet has noticed another image.
    looks: usize,
    /// How often a container was made.
    pub(crate) starts: usize,
    pub(crate) server: Value,
    /// Items in the file.
    pub(crate) kept: u64,
}

impl FakePod {
    fn new(uid: u64, image: &str, items: u64, flags: &str) -> FakePod {
        FakePod {
            image: image.to_owned(),
            annotations: BTreeMap::new(),
            uid,
            generation: 1,
            observed: 1,
            version: uid,
            made_of: image.to_owned(),
            container: uid * 100,
            is_running: true,
            is_ready: true,
            waits: None,
            looks: 0,
            starts: 1,
            server: server(items, Some(0), flags),
            kept: items,
        }
    }
}

/// What a server says of itself.
fn server(items: u64, restored: Option<u64>, flags: &str) -> Value {
    let mut page = json!({ "stats": { "curr_items": items }, "flag_files": [{ "path": "/etc/evenkeel/serve.conf", "sha256": flags }] });
    page["restored_items"] = restored.into();
    page
}

impl Cluster {
    /// Servers of the image `evenkeel:1`; the StatefulSet wants `evenkeel:2`, which is good.
    pub(crate) fn new(servers: u64) -> Cluster {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let pods = (0..servers)
            .map(|at| (format!("cache-{at}"), FakePod::new(at + 1, "evenkeel:1", ITEMS + at, FLAGS)));
        let images = [("evenkeel:1", Image::Good), ("evenkeel:2", Image::Good)];
        let state = ClusterState {
            pods: pods.collect(),
            image: "evenkeel:2".to_owned(),
            flags: Some(FLAGS.to_owned()),
            strategy: "OnDelete",
            flags_in_pods: (FLAGS.to_owned(), 0),
            images: images.into_iter().map(|(name, image)| (name.to_owned(), image)).collect(),
            answers: None,
            requests: Vec::new(),
            unready_max: 0,
            version: 1000,
        };
        let cluster = Cluster { state: Arc::new(Mutex::new(state)), address };
        let serving = cluster.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serving.serve(stream);
            }
        });
        cluster
    }

    /// Its state.
    pub(crate) fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) {
        let Some((method, path, body)) = request(&stream) else { return };
        let mut state = self.state();
        let count = state.requests.len();
        state.requests.push(format!("{method} {path}"));
        let mut answers = state.answers.take();
        let other = answers.as_mut().and_then(|answers| answers(&method, &path, count));
        state.answers = answers;
        let (status, text) = match other {
            Some(Reply::Says(status, text)) => (status, text),
            Some(Reply::Closes) => return,
            Some(Reply::ClosesAfterwards) => {
                state.answer(&method, &path, &body);
                return;
            }
            None => {
                let (status, json) = state.answer(&method, &path, &body);
                (status, json.to_string())
            }
        };
        drop(state);
        let len = text.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n"
        );
        // Whoever was killed meanwhile reads nothing.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
    }
}

/// A request: method, path, body.
fn request(stream: &TcpStream) -> Option<(String, String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut len) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            len = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ').map(str::to_owned);
    Some((words.next()?, words.next()?, body))
}

/// A refusal, as an API server writes it.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

impl ClusterState {
    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        if path == "/apis/apps/v1/namespaces/ns/statefulsets/cache" {
            return (200, self.stateful_set());
        }
        let Some(rest) = path.strip_prefix("/api/v1/namespaces/ns/pods/") else {
            return (404, status(404, "NotFound", "the server could not find the requested resource"));
        };
        if let Some((name, _)) = rest.split_once(":9150/proxy/api/v1/stats") {
            return self.page(name);
        }
        if !self.pods.contains_key(rest) {
            return (404, status(404, "NotFound", &format!("pods \"{rest}\" not found")));
        }
        match method {
            "PATCH" => self.patch(rest, body),
            _ => {
                self.move_on(rest);
                (200, self.pod(rest))
            }
        }
    }

    fn stateful_set(&self) -> Value {
        let mut set = json!({
            "kind": "StatefulSet",
            "spec": {
                "replicas": self.pods.len().max(1),
                "updateStrategy": { "type": self.strategy },
                "template": {
                    "metadata": { "annotations": {} },
                    "spec": { "containers": [container(&self.image)] },
                },
            },
        });
        if let Some(flags) = &self.flags {
            set["spec"]["template"]["metadata"]["annotations"]["checksum/flags"] = json!(flags);
        }
        set
    }

    fn page(&self, name: &str) -> (u16, Value) {
        match self.pods.get(name) {
            Some(pod) if pod.is_running => {
                let mut page = pod.server.clone();
                let (flags, looks) = &self.flags_in_pods;
                let file = &mut page["flag_files"][0];
                let now = if *looks == 0 { json!(flags) } else { file["sha256"].clone() };
                file["sha256_now"] = now;
                (200, page)
            }
            _ => (
                503,
                status(
                    503,
                    "ServiceUnavailable",
                    "error trying to reach service: dial tcp: connection refused",
                ),
            ),
        }
    }

    fn patch(&mut self, name: &str, body: &[u8]) -> (u16, Value) {
        let patch: Value = serde_json::from_slice(body).expect("a patch is JSON");
        self.version += 1;
        let version = self.version;
        let pod = self.pods.get_mut(name).expect("it is there");
        if patch["metadata"]["resourceVersion"] != json!(pod.version.to_string()) {
            let message = format!(
                "Operation cannot be fulfilled on pods \"{name}\": the object has been modified; please apply your changes to the latest version and try again"
            );
            return (409, status(409, "Conflict", &message));
        }
        for (key, value) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
            match value.as_str() {
                Some(text) => pod.annotations.insert(key.clone(), text.to_owned()),
                None => pod.annotations.remove(key),
            };
        }
        if let Some(image) = patch["spec"]["containers"][0]["image"].as_str() {
            assert_eq!(patch["spec"]["containers"][0]["name"], "evenkeel");
            pod.generation += u64::from(pod.image != image);
            image.clone_into(&mut pod.image);
        }
        pod.version = version;
        (200, self.pod(name))
    }

    /// The kubelet does the next thing.
    fn move_on(&mut self, name: &str) {
        self.flags_in_pods.1 = self.flags_in_pods.1.saturating_sub(1);
        let flags = self.flags_in_pods.0.clone();
        self.version += 1;
        let version = self.version;
        let pod = self.pods.get_mut(name).expect("it is there");
        // A container that does not run is made again, too: it has ended for an image that could not be had.
        let is_changed = pod.image != pod.made_of || (pod.looks > 0 && !pod.is_running);
        // A name with a digest is one of the image without it.
        let plain = pod.image.split('@').next().unwrap_or_default();
        let kind = self.images.get(plain).copied().unwrap_or(Image::Unknown);
        match (is_changed, pod.looks) {
            // It has not noticed yet.
            (true, 0) => pod.looks = 1,
            (true, 1) => {
                pod.looks = 2;
                pod.observed = pod.generation;
                if pod.is_running {
                    pod.kept = pod.server["stats"]["curr_items"].as_u64().expect("a number");
                }
                (pod.is_running, pod.is_ready) = (false, false);
                pod.waits = Some(("ContainerCreating", String::new()));
            }
            (true, _) if kind == Image::Unknown => {
                pod.waits = Some((
                    "ImagePullBackOff",
                    format!("Back-off pulling image \"{}\": ErrImagePull: not found", pod.image),
                ));
            }
            (true, _) => {
                pod.looks = 0;
                pod.image.clone_into(&mut pod.made_of);
                pod.container += 1;
                pod.starts += 1;
                pod.is_running = kind != Image::Crashes;
                pod.waits = None;
                if kind == Image::Crashes {
                    pod.waits =
                        Some(("CrashLoopBackOff", "back-off 10s restarting failed container".to_owned()));
                }
                let kept = if kind == Image::Empty { 0 } else { pod.kept };
                pod.server = server(kept, Some(kept), &flags);
                if kind == Image::Silent {
                    pod.server.as_object_mut().expect("an object").remove("restored_items");
                }
            }
            (false, _) => {
                pod.looks = 0;
                pod.observed = pod.generation;
                pod.is_ready = pod.is_running && kind != Image::Hangs;
            }
        }
        pod.version = version;
        let unready = self.pods.values().filter(|pod| !pod.is_ready).count();
        self.unready_max = self.unready_max.max(unready);
    }

    fn pod(&self, name: &str) -> Value {
        let pod = &self.pods[name];
        let state = match (&pod.waits, pod.is_running) {
            (Some((reason, message)), _) => json!({ "waiting": { "reason": reason, "message": message } }),
            (None, true) => json!({ "running": { "startedAt": "2026-11-28T00:00:00Z" } }),
            (None, false) => json!({ "terminated": { "reason": "Completed", "exitCode": 0 } }),
        };
        json!({
            "kind": "Pod",
            "metadata": {
                "name": name, "uid": pod.uid.to_string(), "resourceVersion": pod.version.to_string(),
                "annotations": pod.annotations, "generation": pod.generation,
            },
            "spec": { "containers": [container(&pod.image)] },
            "status": {
                "podIP": "10.0.0.1",
                "observedGeneration": pod.observed,
                "containerStatuses": [{
                    "name": "evenkeel", "ready": pod.is_ready, "state": state,
                    "containerID": format!("containerd://{}", pod.container),
                    "imageID": format!("docker.io/library/evenkeel@{SUM}"),
                }],
            },
        })
    }

    /// The pod is deleted, and the StatefulSet makes another one, with the image and the flags of now.
    pub(crate) fn make_again(&mut self, name: &str) {
        self.version += 1;
        let (image, flags) = (self.image.clone(), self.flags.clone().unwrap_or_default());
        let uid = self.version;
        self.pods.insert(name.to_owned(), FakePod::new(uid, &image, 0, &flags));
    }
}

fn container(image: &str) -> Value {
    json!({
        "name": "evenkeel", "image": image, "args": ["serve", "@/etc/evenkeel/serve.conf"],
        "ports": [{ "name": "memcached", "containerPort": 11211 }, { "name": "metrics", "containerPort": 9150 }],
    })
}
