//! `control upgrade`: nine servers and three routers under load, with a controller and an agent for each.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
/// Items of all servers.
const ITEMS: usize = 1000;

/// The processes, and a folder for each host. All of it ends with this value.
struct UpgradedFleet {
    folder: PathBuf,
    children: Vec<Child>,
    pid_files: Vec<PathBuf>,
    routers: Vec<SocketAddr>,
    /// Routers are started again until then.
    end: Arc<AtomicBool>,
    keepers: Vec<JoinHandle<()>>,
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
        let (children, pid_files, routers, keepers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let end = Arc::new(AtomicBool::new(false));
        let mut fleet = UpgradedFleet { folder, children, pid_files, routers, end, keepers };
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

    /// A router whose listening socket outlives it, as one of systemd's does.
    fn router(&mut self, number: usize) {
        let name = format!("r{number}");
        let [link, pid] = ["current", "pid"].map(|what| self.path(&format!("{name}-{what}")));
        symlink(self.path("programs/old/evenkeel"), &link).expect("a link");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        self.routers.push(address);
        let (end, routes, pid_file) = (Arc::clone(&self.end), self.path("routes.json"), pid.clone());
        let keep = move || {
            while !end.load(Ordering::Acquire) {
                let script = "exec \"$0\" route -f \"$1\" --listen-sock-fd 3 -P \"$2\" 3<&0 </dev/null";
                let mut command = Command::new("sh");
                command.args(["-c", script, &link, &routes, &pid_file]);
                let socket = listener.try_clone().expect("a descriptor");
                command.stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
                command.stdout(Stdio::null()).stderr(Stdio::null());
                command.spawn().expect("a router").wait().expect("it is ours");
            }
        };
        self.keepers.push(std::thread::spawn(keep));
        self.pid_files.push(PathBuf::from(&pid));
        let member = format!(
            "[[router]]\nname = \"{name}\"\nview = \"main\"\nfile = \"{}\"\naddress = \"{address}\"\npid_file = \"{pid}\"\nreload = [\"/bin/sh\", \"-c\", \"kill -TERM $(cat {pid})\"]\n",
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
        self.end.store(true, Ordering::Release);
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for pid in self.pid_files.iter().filter_map(|file| super::read_pid(file)) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        self.keepers.drain(..).for_each(|keeper| drop(keeper.join()));
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What clients of routers have met.
#[derive(Clone, Copy, Debug, Default)]
struct RoutedMet {
    gets: u64,
    missed: u64,
    refused: u64,
    /// The router closed the connection before it answered; the client has connected and asked again.
    repeated: u64,
    longest: Duration,
}

fn get_until(router: SocketAddr, end: &AtomicBool) -> RoutedMet {
    let mut met = RoutedMet::default();
    let mut stream: Option<BufReader<TcpStream>> = None;
    while !end.load(Ordering::Acquire) {
        // The processes of the fleet have two CPUs together.
        clock::pass(Duration::from_millis(1));
        let begun = clock::now();
        let key = met.gets as usize % ITEMS;
        let answer = loop {
            let mut connected = match stream.take() {
                Some(stream) => stream,
                None => match TcpStream::connect(router) {
                    Ok(stream) => BufReader::new(stream),
                    Err(_) => {
                        met.refused += 1;
                        continue;
                    }
                },
            };
            let mut answer = String::new();
            let asked = connected.get_mut().write_all(format!("get k{key}\r\n").as_bytes()).is_ok();
            while asked
                && !answer.ends_with("END\r\n")
                && connected.read_line(&mut answer).is_ok_and(|len| len > 0)
            {}
            if answer.ends_with("END\r\n") {
                stream = Some(connected);
                break answer;
            }
            met.repeated += 1;
        };
        met.gets += 1;
        met.missed += u64::from(!answer.contains("\r\nitem\r\n"));
        met.longest = met.longest.max(begun.elapsed());
    }
    met
}

#[test]
fn a_version_goes_through_nine_servers_and_three_routers_and_back_and_no_item_is_lost() {
    let fleet = UpgradedFleet::begin();
    let is_known = || {
        let found = fleet.control(&["tune", "check"]).unwrap_or_default();
        found.contains(&format!("{} hosts of all", SERVERS + ROUTERS)).then_some(())
    };
    assert!(clock::wait_for(is_known).is_some(), "{}", fleet.logs());
    let mut stream = TcpStream::connect(fleet.routers[0]).expect("a router");
    for key in 0..ITEMS {
        stream.write_all(format!("set k{key} 0 0 4\r\nitem\r\n").as_bytes()).expect("sent");
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer).expect("an answer");
        assert_eq!(answer, "STORED\r\n");
    }
    let end = Arc::new(AtomicBool::new(false));
    let client = |router: SocketAddr| {
        let end = Arc::clone(&end);
        std::thread::spawn(move || get_until(router, &end))
    };
    let clients: Vec<JoinHandle<RoutedMet>> = fleet.routers.iter().map(|router| client(*router)).collect();

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
    let met: Vec<RoutedMet> = clients.into_iter().map(|client| client.join().expect("a client")).collect();
    println!("{met:#?}\n{}", fleet.logs());
    assert!(met.iter().all(|met| met.gets > 0 && met.missed == 0 && met.refused == 0), "{met:?}");
}
