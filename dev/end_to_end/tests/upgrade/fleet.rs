//! `control upgrade`: nine servers and three routers under load, with a controller and an agent for each.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use end_to_end::{clock, subject};

const SERVERS: usize = 9;
const ROUTERS: usize = 3;
/// Items of each client.
const ITEMS: usize = 300;
/// The variable with the number of clients.
const CLIENTS: &str = "EVENKEEL_TEST_CLIENTS";

/// The processes, and a folder for each host. All of it ends with this value.
struct UpgradedFleet {
    folder: PathBuf,
    children: Vec<Child>,
    pid_files: Vec<PathBuf>,
    routers: Vec<SocketAddr>,
}

impl UpgradedFleet {
    fn begin() -> UpgradedFleet {
        let folder = std::env::temp_dir().join(format!("evenkeel-upgraded-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let binary = fs::read(subject::router().get_program()).expect("the binary");
        for version in ["old", "new"] {
            let path = folder.join("programs").join(version);
            fs::create_dir_all(&path).expect("a folder");
            fs::write(path.join("evenkeel"), [&*binary, version.as_bytes()].concat()).expect("a program");
            fs::set_permissions(path.join("evenkeel"), Permissions::from_mode(0o755)).expect("permissions");
        }
        let (children, pid_files, routers) = (Vec::new(), Vec::new(), Vec::new());
        let mut fleet = UpgradedFleet { folder, children, pid_files, routers };
        let (register, socket) = (fleet.path("register"), fleet.path("control"));
        let register = format!("directory:{register}");
        let certificate = super::controller_certificate(&fleet.folder);
        let words = ["control", "serve", "--zone", "a", "--register", &register, "--socket", &socket];
        fleet.start("control", &[&words[..], &certificate.each_ref().map(String::as_str)].concat());
        let ports: Vec<u16> = (0..SERVERS).map(|server| fleet.server(server)).collect();
        let pool: Vec<String> = ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let routes = format!(
            "{{\"pools\": {{\"all\": {{\"servers\": [{}]}}}}, \"route\": \"PoolRoute|all\"}}",
            pool.join(",")
        );
        fs::write(fleet.folder.join("routes.json"), routes).expect("written");
        (0..ROUTERS).for_each(|router| fleet.router(router));
        fleet
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// A process of the fleet.
    fn start(&mut self, name: &str, words: &[&str]) {
        let log = File::options().create(true).append(true).open(self.path(&format!("{name}.log")));
        let mut command = Command::new(subject::router().get_program());
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log"));
        self.children.push(command.spawn().expect("a process"));
    }

    /// A host with its agent, and a link to the old program.
    fn host(&mut self, name: &str, member: &str) {
        let link = self.path(&format!("{name}-current"));
        let text = format!(
            "host = \"{name}\"\nzone = \"a\"\ncontrollers = [\"unix:{}\"]\nfolder = \"{}\"\n\n[upgrade]\nlink = \"{link}\"\nprograms = \"{}\"\nseconds = 60\n\n{member}",
            self.path("control"),
            self.path(&format!("{name}-agent")),
            self.path("programs/{version}/evenkeel"),
        );
        let file = self.path(&format!("{name}.toml"));
        fs::write(&file, text).expect("written");
        self.start(name, &["agent", &file]);
    }

    fn server(&mut self, number: usize) -> u16 {
        let (name, port) =
            (format!("s{number}"), end_to_end::server::reserve_port().expect("a port").1.port());
        let [link, pid, next] = ["current", "pid", "next"].map(|what| self.path(&format!("{name}-{what}")));
        symlink(self.path("programs/old/evenkeel"), &link).expect("a link");
        let port_text = port.to_string();
        let flags = ["serve", "-d", "-u", "root", "-m", "64", "-t", "1", "-l", "127.0.0.1", "-p", &port_text];
        let words = [&[link.as_str()], &flags[..], &["-P", &pid, "--takeover", &next]].concat();
        assert!(Command::new(words[0]).args(&words[1..]).status().expect("a start").success());
        self.pid_files.push(PathBuf::from(&pid));
        let member = format!(
            "[[server]]\nmember = \"m{number}\"\naddress = \"127.0.0.1:{port}\"\npid_file = \"{pid}\"\nreload = {words:?}\n"
        );
        self.host(&name, &member);
        port
    }

    fn router(&mut self, number: usize) {
        let name = format!("r{number}");
        let [link, pid, next] = ["current", "pid", "next"].map(|what| self.path(&format!("{name}-{what}")));
        symlink(self.path("programs/old/evenkeel"), &link).expect("a link");
        let address = end_to_end::server::reserve_port().expect("a port").1;
        let (port, routes) = (address.port().to_string(), self.path("routes.json"));
        let flags = ["route", "--background", "-f", &routes, "--listen-addresses", "127.0.0.1", "-p", &port];
        let words = [&[link.as_str()], &flags[..], &["-P", &pid, "--takeover", &next]].concat();
        assert!(Command::new(words[0]).args(&words[1..]).status().expect("a start").success());
        self.routers.push(address);
        self.pid_files.push(PathBuf::from(&pid));
        let member = format!(
            "[[router]]\nname = \"{name}\"\nview = \"main\"\nfile = \"{}\"\naddress = \"{address}\"\npid_file = \"{pid}\"\nreload = {words:?}\n",
            self.path(&format!("{name}.json")),
        );
        self.host(&name, &member);
    }

    fn control(&self, words: &[&str]) -> Result<String, String> {
        let place = format!("unix:{}", self.path("control"));
        let mut command = Command::new(subject::router().get_program());
        let output = command.arg("control").args(words).args(["--at", &place]).output().expect("a process");
        let [said, complained] =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        if output.status.success() { Ok(said) } else { Err(format!("{said}{complained}")) }
    }

    fn logs(&self) -> String {
        let names = fs::read_dir(&self.folder).expect("a folder").flatten().map(|entry| entry.path());
        let logs = names.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
        logs.map(|path| format!("{}: {}\n", path.display(), fs::read_to_string(&path).unwrap_or_default()))
            .collect()
    }

    /// Every server and router runs this version.
    #[track_caller]
    fn check(&self, version: &str) {
        let expected = self.folder.join("programs").join(version).join("evenkeel");
        for file in &self.pid_files {
            let pid = super::read_pid(file).expect("a process");
            let exe = fs::read_link(format!("/proc/{pid}/exe")).expect("it runs");
            assert_eq!(exe, expected, "{}: {}", file.display(), self.logs());
        }
    }
}

impl Drop for UpgradedFleet {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for pid in self.pid_files.iter().filter_map(|file| super::read_pid(file)) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What clients of routers have met.
#[derive(Clone, Copy, Debug, Default)]
struct RoutedMet {
    requests: u64,
    gets: u64,
    missed: u64,
    /// Values that had been replaced before.
    older: u64,
    refused: u64,
    /// The router closed the connection before it answered; the client has connected and asked again.
    repeated: u64,
    /// Requests that took more than 50 ms.
    late: u64,
    longest: Duration,
}

impl RoutedMet {
    fn with(self, other: RoutedMet) -> RoutedMet {
        RoutedMet {
            requests: self.requests + other.requests,
            gets: self.gets + other.gets,
            missed: self.missed + other.missed,
            older: self.older + other.older,
            refused: self.refused + other.refused,
            repeated: self.repeated + other.repeated,
            late: self.late + other.late,
            longest: self.longest.max(other.longest),
        }
    }
}

/// A client with keys of its own, which knows what it has stored.
struct RoutedClient {
    router: SocketAddr,
    number: usize,
    stream: Option<BufReader<TcpStream>>,
    met: RoutedMet,
}

impl RoutedClient {
    /// The answer, which ends with one of these.
    fn ask(&mut self, request: &str, ends: &[&str]) -> String {
        loop {
            let mut connected = match self.stream.take() {
                Some(stream) => stream,
                None => match TcpStream::connect(self.router) {
                    Ok(stream) => BufReader::new(stream),
                    Err(_) => {
                        self.met.refused += 1;
                        continue;
                    }
                },
            };
            let is_whole = |answer: &str| ends.iter().any(|end| answer.ends_with(end));
            let mut answer = String::new();
            let asked = connected.get_mut().write_all(request.as_bytes()).is_ok();
            while asked && !is_whole(&answer) && connected.read_line(&mut answer).is_ok_and(|len| len > 0) {}
            if is_whole(&answer) {
                self.stream = Some(connected);
                return answer;
            }
            self.met.repeated += 1;
        }
    }

    fn ask_until(mut self, end: &AtomicBool) -> RoutedMet {
        let mut stored = vec![0_u64; ITEMS];
        // All of them first, then one in ten requests.
        while !end.load(Ordering::Acquire) {
            let request = self.met.requests as usize;
            if request >= ITEMS {
                // The processes of the fleet have two CPUs together.
                clock::pass(Duration::from_millis(1));
            }
            let (begun, key) = (clock::now(), request % ITEMS);
            let name = format!("c{}k{key}", self.number);
            if request < ITEMS || request % 10 == request / ITEMS % 10 {
                let value = stored[key] + 1;
                let text = value.to_string();
                let answer = self.ask(&format!("set {name} 0 0 {}\r\n{text}\r\n", text.len()), &["\r\n"]);
                assert_eq!(answer, "STORED\r\n");
                stored[key] = value;
            } else {
                let answer = self.ask(&format!("get {name}\r\n"), &["END\r\n", "ERROR\r\n"]);
                self.met.gets += 1;
                match answer.lines().nth(1).map(|value| value.parse() == Ok(stored[key])) {
                    Some(true) => {}
                    Some(false) => self.met.older += 1,
                    None => self.met.missed += 1,
                }
            }
            self.met.requests += 1;
            if request >= ITEMS {
                self.met.late += u64::from(begun.elapsed() > Duration::from_millis(50));
                self.met.longest = self.met.longest.max(begun.elapsed());
            }
        }
        self.met
    }
}

#[test]
fn a_version_goes_through_nine_servers_and_three_routers_and_back_and_no_item_is_lost() {
    let fleet = UpgradedFleet::begin();
    let is_known = || {
        let found = fleet.control(&["tune", "check"]).unwrap_or_default();
        found.contains(&format!("{} hosts of all", SERVERS + ROUTERS)).then_some(())
    };
    assert!(clock::wait_for(is_known).is_some(), "{}", fleet.logs());
    let end = Arc::new(AtomicBool::new(false));
    let client = |number: usize| {
        let (end, router) = (Arc::clone(&end), fleet.routers[number % ROUTERS]);
        let client = RoutedClient { router, number, stream: None, met: RoutedMet::default() };
        std::thread::spawn(move || client.ask_until(&end))
    };
    let count = std::env::var(CLIENTS).ok().and_then(|count| count.parse().ok()).unwrap_or(ROUTERS);
    let clients: Vec<JoinHandle<RoutedMet>> = (0..count).map(client).collect();
    let begun = clock::now();

    let shown = fleet.control(&["upgrade", "--version", "new", "--accept", "all"]).expect("a plan");
    assert!(shown.contains("upgrade to new"), "{shown}");
    fleet.check("old");
    // On a busy machine an agent may be late, and a host that is not heard is left out.
    let times = ["baseline_ms=1000", "look_ms=1000", "zone_ms=1000", "silence_ms=300000"];
    let times: Vec<&str> = times.into_iter().flat_map(|time| ["--set", time]).collect();
    let words = ["upgrade", "--version", "new", "--accept", "all", "--apply", "--why", "a test", "--follow"];
    let done = fleet.control(&[&words[..], &times].concat());
    let done = done.unwrap_or_else(|why| panic!("{why}\n{}", fleet.logs()));
    assert!(done.contains("done") && !done.contains("left out"), "{done}\n{}", fleet.logs());
    fleet.check("new");
    fleet.control(&["tune", "undo", "1", "--why", "a test"]).expect("an undo");
    let undone = fleet.control(&["tune", "status", "1", "--follow"]).expect("a status");
    assert!(undone.contains("undone"), "{undone}");
    fleet.check("old");

    end.store(true, Ordering::Release);
    let passed = begun.elapsed();
    let met = clients.into_iter().map(|client| client.join().expect("a client"));
    let met = met.fold(RoutedMet::default(), RoutedMet::with);
    println!("{:.0} requests/s of {count} clients: {met:#?}", met.requests as f64 / passed.as_secs_f64());
    println!("{}", fleet.logs());
    let is_whole = met.missed + met.older + met.refused + met.repeated == 0;
    assert!(met.gets > 0 && is_whole, "{met:?}\n{}", fleet.logs());
}
