//! A server, a router and a Prometheus that scrapes them under load: every expression of every dashboard and rule gives a figure.
//!
//! What needs a feature is asked if the processes have it: flash, TLS, lists of members, a check of the host. A control plane is asked
//! once its processes have metrics.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;
use ship::monitoring::table::Feature;

use super::dashboards::queries;
use super::processes::{Running, evenkeel, free_addresses, new_folder, wait_for};
use super::prometheus::{Prometheus, get};
use super::selectors::selectors;
use super::{cases, file, has, left_out};

/// The window of rates: ten scrapes of a second.
const WINDOW: &str = "10s";

/// All processes; the last started is ended first.
struct World {
    prometheus: Prometheus,
    features: Vec<Feature>,
    running: Vec<Running>,
    /// Pages of the controller and of the agent, if they have any.
    fleet_pages: Vec<SocketAddr>,
}

/// The binary and the folder of its files.
struct Place {
    evenkeel: PathBuf,
    folder: PathBuf,
}

impl Place {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Runs a verb to its end.
    fn run(&self, words: &[&str]) -> String {
        let output =
            Command::new(&self.evenkeel).args(words).current_dir(&self.folder).output().expect("run it");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "evenkeel {}: {said}", words.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a verb.
    fn start(&self, name: &str, words: &[String]) -> Running {
        let mut command = Command::new(&self.evenkeel);
        Running::start(command.args(words).current_dir(&self.folder), &self.folder, name)
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

impl World {
    fn start(place: &Place) -> World {
        let [prometheus, text, plain, rich, router, controller] = free_addresses();
        let [plain_page, rich_page, router_page, controller_page, agent_page] = free_addresses();
        let mut running = vec![
            place.start("plain", &plain_server(plain, plain_page)),
            place.start("rich", &rich_server(place, rich, rich_page)),
        ];
        wait_until_ready(plain_page, &running[0]);
        wait_until_ready(rich_page, &running[1]);
        let compares = place.run(&["route", "--help"]).contains("--compare-shadows");
        running.push(place.start("router", &a_router(place, router, router_page, plain, compares)));
        wait_until_ready(router_page, &running[2]);
        let mut features = vec![Feature::Flash, Feature::Tls, Feature::ClusterFile, Feature::TuneCheck];
        if compares {
            features.push(Feature::Shadows);
        } else {
            left_out("routers of this binary have no --compare-shadows");
        }
        let page = get(plain_page, "/metrics").expect("a page");
        if page.contains("\nevenkeel_host_disk_in_flight{") {
            features.push(Feature::Disk);
        }
        let mut fleet_pages = Vec::new();
        if has_pages_of_a_fleet(place) {
            fleet_pages.extend([controller_page, agent_page]);
            running.extend(fleet(place, plain, controller, [controller_page, agent_page]));
            features.push(Feature::Fleet);
        } else {
            left_out("controllers and agents of this binary have no --metrics-listen");
        }
        place.run(&["tune", "check", "--seconds", "1", "--prometheus", "check.prom"]);
        serve_text(text, fs::read_to_string(place.path("check.prom")).expect("a check"));
        let targets = [
            ("9150", vec![plain_page, rich_page]),
            ("9442", vec![router_page]),
            ("9151", vec![controller_page]),
            ("9152", vec![agent_page]),
            ("9100", vec![text]),
        ];
        fs::write(place.path("prometheus.yaml"), scrapes(&targets)).expect("write the configuration");
        let mut command = Command::new("prometheus");
        command.args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.level=warn"]);
        command.arg(format!("--web.listen-address={prometheus}")).current_dir(&place.folder);
        running.push(Running::start(&mut command, &place.folder, "prometheus"));
        let common = "--duration 180s --warm-up 0s --slot 1ms --connections 8 --popularity zipf --ttl 60";
        let load = format!(
            "load --server {router} --rate 800 --keys 2000 --mix get=0.7,set=0.2,delete=0.05,touch=0.05"
        );
        running.push(place.start("load", &words(&format!("{load} {common}"))));
        let load =
            format!("load --server {rich} --rate 400 --keys 2000 --gets 0.5 --tls --tls-ca ca/authority.pem");
        running.push(place.start("load-tls", &words(&format!("{load} {common}"))));
        World { prometheus: Prometheus { address: prometheus }, features, running, fleet_pages }
    }

    /// Looks until each of the expressions has a figure; what has none when the time is over.
    fn without_figures(&mut self, expressions: Vec<(String, String)>) -> Vec<String> {
        let mut left = expressions;
        let prometheus = self.prometheus;
        let mut problems = Vec::new();
        wait_for(|| {
            problems.clear();
            left.retain(|(place, expression)| match has_figure(prometheus, expression) {
                Ok(()) => false,
                Err(error) => {
                    problems.push(format!("{place}: {error:#}: {expression}"));
                    true
                }
            });
            left.is_empty().then_some(())
        });
        for running in &mut self.running {
            assert!(!running.has_ended(), "a process has ended: {}", running.said());
        }
        problems
    }
}

impl Drop for World {
    fn drop(&mut self) {
        while self.running.pop().is_some() {}
    }
}

fn plain_server(address: SocketAddr, page: SocketAddr) -> Vec<String> {
    let port = address.port();
    words(&format!("serve -l 127.0.0.1 -p {port} -m 64 -t 2 -u root -P plain.pid --metrics-listen {page}"))
}

/// With all that gives a server further families.
fn rich_server(place: &Place, address: SocketAddr, page: SocketAddr) -> Vec<String> {
    place.run(&words_of("control init ca --fleet test --operator o"));
    place.run(&words_of(
        "control certificate --authority ca --role server --id s --host 127.0.0.1 --out s.pem",
    ));
    fs::write(place.path("members"), format!("1\nlocalhost|127.0.0.1|{}\n", address.port()))
        .expect("write members");
    let flash =
        format!("ext_path={}:64m,ext_page_size=8,ext_wbuf_size=1,ext_item_size=32", place.path("flash"));
    let certificate = place.path("s.pem");
    let port = address.port();
    let mut flags =
        words(&format!("serve -l 127.0.0.1 -p {port} -m 32 -t 1 -u root --metrics-listen {page}"));
    flags.extend(["-Z".to_owned(), "-o".to_owned()]);
    flags.push(format!("{flash},ssl_chain_cert={certificate},ssl_key={certificate}"));
    flags.extend(["--cluster-file".to_owned(), place.path("members")]);
    flags
}

fn words_of(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

/// In front of the plain server, which is its own shadow.
fn a_router(
    place: &Place,
    address: SocketAddr,
    page: SocketAddr,
    server: SocketAddr,
    compares: bool,
) -> Vec<String> {
    let config = json!({
        "pools": {"main": {"servers": [server]}, "copy": {"servers": [server]}},
        "route": {"type": "PoolRoute", "pool": "main", "shadows": [
            {"target": "PoolRoute|copy", "index_range": [0, 1], "key_fraction_range": [0, 0.5], "compare_fraction": 1},
        ]},
    });
    fs::write(place.path("route.json"), config.to_string()).expect("write the configuration");
    let port = address.port();
    fs::write(place.path("routers"), format!("1\nlocalhost|127.0.0.1|{port}\n")).expect("write routers");
    let flags =
        format!("route -p {port} --listen-addresses 127.0.0.1 --asynclog-disable --metrics-listen {page}");
    let mut flags = words(&flags);
    flags.push(format!("--config=file:{}", place.path("route.json")));
    // For servers with TLS, of which it has none.
    flags.extend(["pem-cert-path", "pem-key-path"].map(|flag| format!("--{flag}={}", place.path("s.pem"))));
    flags.push(format!("--cluster-file={}", place.path("routers")));
    flags.extend(compares.then(|| "--compare-shadows".to_owned()));
    flags
}

fn has_pages_of_a_fleet(place: &Place) -> bool {
    [&["control", "serve", "--help"][..], &["agent", "--help"]]
        .iter()
        .all(|help| place.run(help).contains("--metrics-listen"))
}

/// A controller on a register of its own, and an agent beside the plain server.
fn fleet(
    place: &Place,
    server: SocketAddr,
    controller: SocketAddr,
    [controller_page, agent_page]: [SocketAddr; 2],
) -> Vec<Running> {
    place.run(&words_of(
        "control certificate --authority ca --role controller --id c --host 127.0.0.1 --out c.pem",
    ));
    place.run(&words_of("control certificate --authority ca --role agent --id h --out h.pem"));
    // The server shows none; its agent renews it all the same.
    place.run(&words_of(
        "control certificate --authority ca --role server --id m --host 127.0.0.1 --out m.pem",
    ));
    let settings = format!(
        "host = \"h\"\nzone = \"here\"\ncontrollers = [\"{controller}\"]\nfolder = \"{}\"\n\
        [[server]]\nmember = \"m\"\naddress = \"{server}\"\npid_file = \"{}\"\ncertificate = \"{}\"\n",
        place.path("agent"),
        place.path("plain.pid"),
        place.path("m.pem")
    );
    fs::write(place.path("agent.toml"), settings).expect("write the agent's file");
    let serve = format!(
        "control serve --register directory:register --zone here --listen {controller} --metrics-listen {controller_page} \
        --tls-ca ca/authority.pem --tls-cert c.pem"
    );
    let agent =
        format!("agent agent.toml --metrics-listen {agent_page} --tls-ca ca/authority.pem --tls-cert h.pem");
    vec![place.start("controller", &words(&serve)), place.start("agent", &words(&agent))]
}

fn wait_until_ready(page: SocketAddr, process: &Running) {
    let ready = wait_for(|| get(page, "/readyz").ok().filter(|body| body.starts_with("ready")));
    assert!(ready.is_some(), "it is not ready: {}", process.said());
}

/// Serves a text as node_exporter serves what its textfile collector has read, until this process ends.
fn serve_text(address: SocketAddr, text: String) {
    let listener = TcpListener::bind(address).expect("the port is still free");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
            let _ = write!(stream, "{head}{text}");
        }
    });
}

/// `prometheus.yaml` with other addresses, and every second.
fn scrapes(targets: &[(&str, Vec<SocketAddr>)]) -> String {
    let mut text = file("prometheus.yaml");
    let mut put = |from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "prometheus.yaml has {from} once");
        text = text.replace(from, to);
    };
    for (port, addresses) in targets {
        let quoted: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
        put(&format!("\"127.0.0.1:{port}\""), &quoted.join(", "));
    }
    put("scrape_interval: 15s", "scrape_interval: 1s");
    put("evaluation_interval: 30s", "evaluation_interval: 1s");
    let rules = checkout::workspace().join(ship::monitoring::FOLDER).join("rules.yaml");
    put("  - rules.yaml", &format!("  - {}", rules.display()));
    text
}

/// Whether an expression gives a number.
fn has_figure(prometheus: Prometheus, expression: &str) -> Result<()> {
    let figures = prometheus.figures(expression)?;
    ensure!(!figures.is_empty(), "no series");
    ensure!(figures.iter().any(|figure| figure.is_finite()), "no number");
    Ok(())
}

/// What is expected to give figures: expressions of dashboards, of recording rules, and selectors of alerts.
fn expected(world: &World) -> Vec<(String, String)> {
    let has_all = |features: &[Feature]| features.iter().all(|feature| world.features.contains(feature));
    let mut expected = Vec::new();
    for (place, query) in queries() {
        if query.empty.is_none() && has_all(&query.features()) {
            expected.push((place, cases::with_values(&query.expression(), WINDOW)));
        }
    }
    let data = world.prometheus.data("/api/v1/rules").expect("rules");
    for rule in
        data["groups"].as_array().into_iter().flatten().flat_map(|group| group["rules"].as_array()).flatten()
    {
        let (name, query) =
            (rule["name"].as_str().expect("a name"), rule["query"].as_str().expect("an expression"));
        if rule["type"] == "recording" {
            expected.push((name.to_owned(), query.to_owned()));
            continue;
        }
        for selector in selectors(query) {
            if Feature::of(&selector).is_none_or(|feature| has_all(&[feature])) {
                expected.push((name.to_owned(), format!("count({selector})")));
            }
        }
    }
    expected
}

/// Expressions that may give nothing here are no errors, all the same.
fn errors_of_the_others(world: &World) -> Vec<String> {
    let expressions = queries().into_iter().map(|(place, query)| (place, query.expression()));
    let ask = |(place, expression): (String, String)| {
        let error = world.prometheus.figures(&cases::with_values(&expression, WINDOW)).err()?;
        Some(format!("{place}: {error:#}: {expression}"))
    };
    expressions.filter_map(ask).collect()
}

/// Families of the pages of a fleet that no panel of a dashboard shows.
fn families_without_a_panel(pages: &[SocketAddr]) -> Vec<String> {
    let queries = queries();
    let is_shown = |family: &str| {
        let is_its = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        queries.iter().any(|(_, query)| query.text.split(is_its).any(|word| word == family))
    };
    let pages = pages.iter().map(|page| get(*page, "/metrics").expect("a page"));
    let families = |page: String| -> Vec<String> {
        let lines = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        lines.map(str::to_owned).collect()
    };
    pages.flat_map(families).filter(|family| !is_shown(family)).collect()
}

/// Rules that could not be evaluated.
fn ill_rules(prometheus: Prometheus) -> Vec<String> {
    let data = prometheus.data("/api/v1/rules").expect("rules");
    let rules =
        data["groups"].as_array().into_iter().flatten().flat_map(|group| group["rules"].as_array()).flatten();
    rules
        .filter(|rule| rule["health"] == "err")
        .map(|rule| format!("{}: {}", rule["name"], rule["lastError"]))
        .collect()
}

#[test]
fn every_expression_gives_a_figure_under_load() {
    let Some(evenkeel) = evenkeel() else { return };
    if !has("prometheus") {
        return;
    }
    let place = Place { evenkeel, folder: new_folder("live") };
    let mut world = World::start(&place);
    let page = world.prometheus;
    assert!(
        wait_for(|| page.data("/api/v1/rules").ok()).is_some(),
        "{}",
        world.running[world.running.len() - 3].said()
    );
    let expected = expected(&world);
    assert!(expected.len() > 150, "{} expressions are asked", expected.len());
    let problems = world.without_figures(expected);
    assert!(problems.is_empty(), "{} expressions give nothing:\n{}", problems.len(), problems.join("\n"));
    let problems =
        [errors_of_the_others(&world), ill_rules(page), families_without_a_panel(&world.fleet_pages)]
            .concat();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
