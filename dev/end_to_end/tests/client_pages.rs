//! The page about clients, `docs/clients.md`: its examples are run as they stand, with the servers that the page describes; its
//! tables agree with the versions that are installed for the tests, and with where the examples put their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use checkout::{clients::sources, target_directory, workspace};
use end_to_end::clients::{self, Interpreter};
use end_to_end::clock;
use end_to_end::network::{in_namespaces, ip, unique_name};
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

const PAGE: &str = "docs/clients.md";
const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/base/tls/tests/certificates");
const PORT: u16 = 11211;
/// What the page says that it connects to.
const SERVERS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)];
const WITH_USERS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 4);
const WITH_TLS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
const ROUTER: &str = "127.0.0.1:5000";
const TLS_NAME: &str = "cache.example";
/// What an example without a router stores: key0, key1 and so on.
const KEYS: usize = 100;
/// The time limit of an example: one that takes longer waits for an answer that does not come.
const SECONDS_MAX: &str = "120";

/// How often an example is run until it works. Half a second, which examples allow for an answer, is short for a machine where any
/// thread may be late by two.
const ATTEMPTS_MAX: usize = 4;

/// A library, what is replaced in its example without a router, and the group to which it then belongs.
type OtherSetting = (&'static str, &'static [(&'static str, &'static str)], &'static str);

const OTHER_SETTINGS: [OtherSetting; 8] = [
    ("pylibmc", &[("\"ketama_weighted\": True", "\"ketama\": True")], "B"),
    (
        "php-memcached",
        &[(
            "Memcached::OPT_LIBKETAMA_COMPATIBLE => true",
            "Memcached::OPT_DISTRIBUTION => Memcached::DISTRIBUTION_CONSISTENT",
        )],
        "B",
    ),
    (
        "xmemcached",
        &[
            ("KetamaMemcachedSessionLocator(true)", "LibmemcachedMemcachedSessionLocator()"),
            ("impl.KetamaMemcachedSessionLocator", "impl.LibmemcachedMemcachedSessionLocator"),
            ("class XmemcachedServers", "class XmemcachedB"),
        ],
        "B",
    ),
    ("pylibmc", &[(", \"ketama_weighted\": True", "")], "C"),
    ("php-memcached", &[("Memcached::OPT_LIBKETAMA_COMPATIBLE => true,", "")], "C"),
    ("libmemcached", &[("memcached_behavior_set(cache, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);", "")], "C"),
    (
        "xmemcached",
        &[("SessionLocator(true)", "SessionLocator()"), ("class XmemcachedServers", "class XmemcachedAlone")],
        "KetamaMemcachedSessionLocator()",
    ),
    (
        "spymemcached",
        &[
            ("Format.LIBMEMCACHED", "Format.SPYMEMCACHED"),
            ("class SpymemcachedServers", "class SpymemcachedAlone"),
        ],
        "Format.SPYMEMCACHED",
    ),
];

fn page() -> String {
    fs::read_to_string(workspace().join(PAGE)).expect("the page")
}

/// An example of the page.
#[derive(Debug, Clone)]
struct Example {
    library: String,
    /// Its place among those of the library, from 1.
    number: usize,
    language: String,
    code: String,
}

impl Example {
    fn name(&self) -> String {
        format!("{}-{}", self.library, self.number)
    }

    /// Whether the client itself computes which server has a key.
    fn places_keys(&self) -> bool {
        SERVERS.iter().all(|server| self.code.contains(&server.to_string()))
    }

    /// The name of a Java program's class.
    fn class(&self) -> &str {
        let behind = self.code.split("\nclass ").nth(1).expect("a class");
        behind.split(' ').next().expect("a name")
    }
}

fn examples() -> Vec<Example> {
    let (mut library, mut number) = (String::new(), 0);
    let mut examples: Vec<Example> = Vec::new();
    let mut is_inside = false;
    for line in page().lines() {
        match (line.strip_prefix("## "), line.strip_prefix("```")) {
            (Some(heading), _) if !is_inside => (library, number) = (heading.to_owned(), 0),
            (_, Some(language)) if !is_inside => {
                number += 1;
                is_inside = true;
                let (library, language) = (library.clone(), language.to_owned());
                examples.push(Example { library, number, language, code: String::new() });
            }
            (_, Some(_)) => is_inside = false,
            _ if is_inside => {
                examples.last_mut().expect("it has begun").code += &format!("{line}\n");
            }
            _ => {}
        }
    }
    examples
}

/// Rows of the page's table below this heading, without its head; an empty first cell is that of the row above.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = page();
    let part = page.split(&format!("\n## {heading}\n")).nth(1).expect("the heading");
    let part = part.split("\n## ").next().expect("a part");
    let lines = part.lines().filter(|line| line.starts_with('|')).skip(2);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in lines {
        let mut row: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        if row[0].is_empty() {
            row[0] = rows.last().expect("a row above")[0].clone();
        }
        rows.push(row);
    }
    assert!(!rows.is_empty(), "{heading} has no table");
    rows
}

/// Everything that the page describes, in a network of its own.
struct World {
    folder: PathBuf,
    _servers: Vec<Server>,
    _router: Server,
}

impl World {
    fn new() -> World {
        for address in SERVERS.iter().chain([&WITH_USERS, &WITH_TLS]) {
            ip(&["address", "add", &format!("{address}/32"), "dev", "lo"]);
        }
        let folder = target_directory().join("tmp").join(format!("clients-{}", unique_name()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let folder = folder.canonicalize().expect("a folder");
        fs::copy(format!("{CERTIFICATES}/authority.pem"), folder.join("ca.pem")).expect("the authority");
        // In a mount namespace of this test.
        let hosts = folder.join("hosts");
        fs::write(&hosts, format!("127.0.0.1 localhost\n{WITH_TLS} {TLS_NAME}\n")).expect("a file");
        let mounted = Command::new("mount").arg("--bind").arg(&hosts).arg("/etc/hosts").status();
        assert!(mounted.expect("mount").success());

        let users = folder.join("users");
        fs::write(&users, "app:secret\n").expect("a file");
        let tls = format!("ssl_chain_cert={CERTIFICATES}/server.pem,ssl_key={CERTIFICATES}/server-key.pem");
        let start = |address: Ipv4Addr, flags: &[&str]| {
            let flags = [&["-m", "64"], flags].concat();
            let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
            Server::start_exactly_at((address, PORT).into(), &subject, &flags).expect("a server")
        };
        let mut servers: Vec<Server> = SERVERS.iter().map(|address| start(*address, &[])).collect();
        servers.push(start(WITH_USERS, &["-S", "-Y", users.to_str().expect("a readable path")]));
        servers.push(start(WITH_TLS, &["-Z", "-o", &tls]));
        let listed = SERVERS.map(|address| format!("\"{address}:{PORT}\"")).join(", ");
        let configuration =
            format!(r#"{{"pools": {{"A": {{"servers": [{listed}]}}}}, "route": "PoolRoute|A"}}"#);
        let router = ROUTER.parse().expect("an address");
        let router = Server::start_router_exactly_at(router, &["--config", &configuration]);
        World { folder, _servers: servers, _router: router.expect("a router") }
    }

    /// The programs of examples, all made before the first is run.
    fn programs(&self, examples: &[Example]) -> Vec<Command> {
        let files: Vec<PathBuf> = examples.iter().map(|example| self.file(example)).collect();
        let java = |example: &&Example| example.language == "java";
        let sources: Vec<PathBuf> = examples.iter().filter(java).map(|example| self.file(example)).collect();
        let classes = clients::java_classes("page", &sources).expect("classes");
        let pairs = examples.iter().zip(files);
        pairs.map(|(example, file)| program(example, &file, &classes)).collect()
    }

    /// The file with an example.
    fn file(&self, example: &Example) -> PathBuf {
        let name = match example.language.as_str() {
            "java" => format!("{}.java", example.class()),
            language => format!("{}.{language}", example.name()),
        };
        let file = self.folder.join(name);
        fs::write(&file, &example.code).expect("a file");
        file
    }

    /// Runs an example on empty servers until it works, and returns where its keys are, if it places them itself.
    fn attempt(&self, example: &Example, program: &Command) -> Option<Vec<usize>> {
        let mut complaints = String::new();
        for _ in 0..ATTEMPTS_MAX {
            empty();
            let ran = self.run(program);
            match ran.and_then(|()| example.places_keys().then(owners).transpose()) {
                Ok(owners) => return owners,
                Err(complaint) => complaints += &complaint,
            }
            eprintln!("{} does not work yet: {complaints}", example.name());
        }
        panic!("{} does not work: {complaints}\n{}", example.name(), example.code);
    }

    /// Runs a program once; the last line of what it says is the value that it has stored.
    fn run(&self, program: &Command) -> Result<(), String> {
        let mut bounded = Command::new("timeout");
        bounded.arg(SECONDS_MAX).arg(program.get_program()).args(program.get_args());
        bounded.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = bounded.current_dir(&self.folder).output().expect("timeout of coreutils");
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && said.lines().last() == Some("hello") {
            return Ok(());
        }
        let complained = String::from_utf8_lossy(&output.stderr);
        Err(format!("it ended with {}: {said}{complained}\n", output.status))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn program(example: &Example, file: &Path, classes: &Path) -> Command {
    match example.language.as_str() {
        "python" => Interpreter::Python.run(file),
        "javascript" => Interpreter::Node.run(file),
        "php" => Interpreter::Php.run(file),
        "ruby" => Interpreter::Ruby.run(file),
        "java" => clients::java_program(classes, example.class()).expect("a Java program"),
        "go" => clients::go_program(&format!("page-{}", example.name()), file).expect("a Go program"),
        "c" => clients::c_program(file).expect("a C program"),
        other => panic!("{}: nothing here runs {other}", example.name()),
    }
}

/// One request to a server, and its reply up to this line.
fn ask(server: Ipv4Addr, request: &str, end: &str) -> String {
    let mut stream = TcpStream::connect(SocketAddr::from((server, PORT))).expect("a connection");
    stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut reply = Vec::new();
    let mut some = [0; 4096];
    while !reply.ends_with(end.as_bytes()) {
        let count = stream.read(&mut some).expect("a reply");
        assert!(count > 0, "{server} closed the connection after {}", String::from_utf8_lossy(&reply));
        reply.extend_from_slice(&some[..count]);
    }
    String::from_utf8(reply).expect("text")
}

/// The server of each key, by its place among the servers.
fn owners() -> Result<Vec<usize>, String> {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key{number}")).collect();
    let request = format!("get {}\r\n", keys.join(" "));
    let mut owners = vec![None; KEYS];
    for (place, server) in SERVERS.iter().enumerate() {
        let reply = ask(*server, &request, "END\r\n");
        let found = reply.lines().filter_map(|line| line.strip_prefix("VALUE key"));
        for key in found.map(|rest| rest.split(' ').next().expect("a number")) {
            let key: usize = key.parse().expect("a number");
            if owners[key].replace(place).is_some() {
                return Err(format!("two servers have key{key}\n"));
            }
        }
    }
    let owners = owners.into_iter().enumerate();
    owners.map(|(key, owner)| owner.ok_or_else(|| format!("no server has key{key}\n"))).collect()
}

fn empty() {
    for server in SERVERS {
        ask(server, "flush_all\r\n", "OK\r\n");
    }
}

/// Examples that place keys themselves with another setting, with their groups.
fn other_settings(examples: &[Example]) -> (Vec<Example>, Vec<String>) {
    let changed = OTHER_SETTINGS.iter().zip(100..).map(|(&(library, replaced, group), number)| {
        let of_library = |example: &&Example| example.library == library && example.places_keys();
        let mut example = examples.iter().find(of_library).expect("an example").clone();
        for (from, to) in replaced {
            assert!(example.code.contains(from), "{}: no `{from}`", example.name());
            example.code = example.code.replace(from, to);
        }
        example.number = number;
        (example, group.to_owned())
    });
    changed.unzip()
}

/// The group of a library's example, as the table says: the letter, or the library's own name if it is alone.
fn group(library: &str) -> String {
    let is_it = |cell: &String| cell.split([',', ' ']).any(|word| word == library);
    let row = rows("Which server has a key").into_iter().find(|row| is_it(&row[2]));
    match row.unwrap_or_else(|| panic!("{library} is in no group"))[0].as_str() {
        "alone" => library.to_owned(),
        letter => letter.to_owned(),
    }
}

#[test]
fn the_examples_work_and_place_keys_as_the_page_says() {
    if !in_namespaces("client_pages::the_examples_work_and_place_keys_as_the_page_says") {
        return;
    }
    let mut examples = examples();
    let mut groups: Vec<String> = examples
        .iter()
        .map(|example| if example.places_keys() { group(&example.library) } else { String::new() })
        .collect();
    let (others, their_groups) = other_settings(&examples);
    examples.extend(others);
    groups.extend(their_groups);

    let world = World::new();
    let mut places: BTreeMap<String, Vec<(String, Vec<usize>)>> = BTreeMap::new();
    for ((example, group), program) in examples.iter().zip(groups).zip(world.programs(&examples)) {
        let began = clock::now();
        let owners = world.attempt(example, &program);
        println!("{:7.2?} {}", began.elapsed(), example.name());
        if let Some(owners) = owners {
            places.entry(group).or_default().push((example.name(), owners));
        }
    }
    for letter in ["A", "B", "C"] {
        assert!(places[letter].len() > 1, "who agrees in group {letter}? {places:?}");
    }
    for (group, members) in &places {
        let first = &members[0];
        for (name, owners) in members {
            assert_eq!(owners, &first.1, "group {group}: {name} places keys otherwise than {}", first.0);
            let counts: BTreeSet<usize> = owners.iter().copied().collect();
            assert_eq!(counts.len(), SERVERS.len(), "{name} does not use all servers");
        }
    }
    let different: BTreeSet<&Vec<usize>> = places.values().map(|members| &members[0].1).collect();
    assert_eq!(different.len(), places.len(), "two groups place keys alike: {places:?}");
}

/// Libraries with their versions, as they are installed for the tests.
fn installed() -> BTreeMap<String, String> {
    let read = |name: &str| fs::read_to_string(sources().join(name)).expect("versions");
    let mut versions = BTreeMap::new();
    let python = read("python/requirements.txt");
    versions.extend(python.lines().filter_map(|line| line.split_once("==")).map(owned));
    let node = read("node/package.json");
    let node = node.split("\"dependencies\"").nth(1).expect("dependencies");
    let node = node.lines().filter_map(|line| line.trim().trim_end_matches(',').split_once(": "));
    let node = node.map(|(name, version)| (name.trim_matches('"'), version.trim_matches('"')));
    versions.extend(node.filter(|(name, _)| !name.is_empty()).map(owned));
    let go = read("go/go.mod");
    let go = go.lines().filter_map(|line| line.trim().strip_prefix("github.com/")?.split_once(' '));
    // Named by the last part of the module's path, but for its major version.
    versions.extend(go.map(|(path, version)| {
        let path = path.trim_end_matches("/v3");
        owned((path.rsplit('/').next().expect("a part"), version))
    }));
    let java = read("java/pom.xml");
    let dependencies = java.split("<dependency>").skip(1);
    versions.extend(dependencies.map(|text| owned((element(text, "artifactId"), element(text, "version")))));
    assert!(versions.len() >= 13, "{versions:?}");
    versions
}

fn owned((name, version): (&str, &str)) -> (String, String) {
    (name.to_owned(), version.to_owned())
}

fn element<'a>(text: &'a str, name: &str) -> &'a str {
    let behind = text.split(&format!("<{name}>")).nth(1).expect("an element");
    behind.split('<').next().expect("its text")
}

#[test]
fn the_page_has_the_versions_that_are_tested() {
    let mut installed = installed();
    for row in rows("Tested") {
        let (library, version) = (&row[1], &row[2]);
        if version == "Debian's" {
            continue;
        }
        assert_eq!(installed.remove(library).as_ref(), Some(version), "{library}");
    }
    // The rest is in a sentence below the table.
    let page = page().replace('\n', " ");
    for (library, version) in installed {
        assert!(page.contains(&format!("{library} {version}")), "{library} {version} is not in {PAGE}");
    }
}

/// Of what comes from Debian the page says which version that is.
#[test]
fn the_page_has_the_versions_of_debian() {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !release.contains("\nVERSION_CODENAME=bookworm\n") || !release.contains("\nID=debian\n") {
        let why = "left out: the versions of Debian 12 in the page about clients; this is another system";
        let is_thorough = std::env::var_os("EVENKEEL_TEST_ALL").is_some_and(|value| value == "1");
        assert!(!is_thorough, "{why}");
        return eprintln!("{why}");
    }
    let page = page();
    for (library, package) in
        [("php-memcached", "php-memcached"), ("Dalli", "ruby-dalli"), ("libmemcached", "libmemcached11")]
    {
        let query = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
        let version = String::from_utf8(query.expect("dpkg-query").stdout).expect("text");
        let version = version.split(['-', '+']).next().unwrap_or_default();
        let said = format!("{library} {version}");
        assert!(!version.is_empty() && page.contains(&said), "{said} is not in {PAGE}");
    }
}

#[test]
fn every_library_has_examples_of_what_the_page_says_that_it_can() {
    let examples = examples();
    let rows = rows("Tested");
    for row in &rows {
        let (library, users, tls, router) = (&row[1], &row[4], &row[5], &row[6]);
        let own: Vec<&Example> = examples.iter().filter(|example| &example.library == library).collect();
        assert!(!own.is_empty(), "{library} has no example");
        let router_words = ["127.0.0.1:5000", "127.0.0.1\", 5000", "'127.0.0.1', 5000"];
        let shows =
            |words: &[&str]| own.iter().any(|example| words.iter().any(|word| example.code.contains(word)));
        for (what, said, words) in [
            ("users", users, &["10.0.0.4"][..]),
            ("TLS", tls, &[TLS_NAME]),
            ("a router", router, &router_words),
        ] {
            assert!(said.is_empty() || said == "yes", "{library}, {what}: {said}");
            assert_eq!(said == "yes", shows(words), "{library}: {what}");
        }
    }
    let libraries: BTreeSet<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    let shown: BTreeSet<&str> = examples.iter().map(|example| example.library.as_str()).collect();
    assert_eq!(shown, libraries);
}
