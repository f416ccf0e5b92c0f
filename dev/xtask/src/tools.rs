//! Programs that the tests need beyond Rust: a memcached, libmemcached's checker, the clients people use, and tools
//! that show the kernel's state.
//!
//! Programs come from the system's packages; the clients go under the target directory and touch nothing else.

use crate::steps::{cargo, command, run};
use anyhow::{Context, Result, bail, ensure};
use checkout::{clients, target_directory};
use os::clock;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often something is fetched from a network that does not work at the moment, and the pause before the second
/// time; the pauses grow.
const ATTEMPTS_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(5);

/// A program, how it is asked whether it is there, and the Debian packages that have it.
type Program = (&'static str, &'static [&'static str], &'static [&'static str]);

const PROGRAMS: [Program; 19] = [
    ("memcached", &["-V"], &["memcached"]),
    ("/usr/sbin/mariadbd", &["--version"], &["mariadb-server-core"]),
    ("memccapable", &["-a", "-h", "127.0.0.1", "-p", "1", "-T", "none"], &["libmemcached-tools"]),
    ("python3", &["-c", "import venv, ensurepip"], &["python3", "python3-venv"]),
    // The system's own, which its packages are for.
    ("/usr/bin/python3", &["-c", "import yaml"], &["python3-yaml"]),
    ("python3", &["-c", HAS_PYLIBMC], &["gcc", "libc6-dev", "python3-dev", "libmemcached-dev", "zlib1g-dev"]),
    // What pylibmc logs in with.
    ("sh", &["-c", "ls /usr/lib/*/sasl2/libplain.so*"], &["libsasl2-modules"]),
    ("go", &["version"], &["golang-go"]),
    ("node", &["--version"], &["nodejs"]),
    ("npm", &["--version"], &["npm"]),
    ("ruby", &["-e", "require 'dalli'"], &["ruby", "ruby-dalli"]),
    ("php", &["-r", "exit(class_exists('Memcached') ? 0 : 1);"], &["php-cli", "php-memcached"]),
    // Asked for its version, each would start a virtual machine.
    ("sh", &["-c", "command -v java && command -v javac"], &["default-jdk-headless"]),
    ("sh", &["-c", "command -v mvn"], &["maven"]),
    // What the page about clients shows for C.
    ("sh", &["-c", HAS_LIBMEMCACHED], &["gcc", "libc6-dev", "libmemcached-dev"]),
    ("ip", &["-V"], &["iproute2"]),
    // What the page about upgrades finds an agent with.
    ("pgrep", &["-V"], &["procps"]),
    ("openssl", &["version"], &["openssl"]),
    ("minisign", &["-v"], &["minisign"]),
];

/// PyPI has pylibmc 1.6.3 built for these Pythons; for others it is built here.
const HAS_PYLIBMC: &str = "import os, platform, sys
built = platform.machine() in ('x86_64', 'aarch64') and (3, 9) <= sys.version_info < (3, 12)
sys.exit(not (built or os.path.exists('/usr/include/libmemcached/memcached.h')))";

const HAS_LIBMEMCACHED: &str =
    "echo '#include <libmemcached/memcached.h>' | gcc -fsyntax-only -x c - 2>/dev/null";

/// Maven for one short run: without what makes a long one faster, which takes half as long again.
const MAVEN_OPTIONS: &str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1";

/// Installs what is missing.
///
/// # Errors
/// Reports missing programs and how to get them, where they may not be installed from here.
pub(crate) fn install() -> Result<()> {
    // A failed tool does not stop the rest: more of the tests can run.
    let outcomes = [
        rust_components(),
        packages(),
        etcd().context("unpack Debian's etcd-server"),
        python().context("install the Python clients from PyPI"),
        go().context("install the Go clients through the Go module proxy"),
        node().context("install the Node clients from npm"),
        java().context("install the Java clients from Maven Central"),
    ];
    let failures: Vec<String> =
        outcomes.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn rust_components() -> Result<()> {
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !answers(cargo(&[tool, "--version"])) {
            run(command("rustup", &["component", "add", component]))
                .with_context(|| format!("`cargo {tool}` is missing: install {component}"))?;
        }
    }
    Ok(())
}

fn packages() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        println!("all programs are there");
        return Ok(());
    }
    if !answers(command("apt-get", &["--version"])) || !is_root() {
        let names = missing.join(" ");
        bail!(
            "missing and not to be installed from here: {names}\n  hint: as root, `apt-get install {names}`"
        );
    }
    println!("missing: {}", missing.join(" "));
    install_packages(&missing).context("apt-get says above what is in the way")
}

fn install_packages(packages: &[&str]) -> Result<()> {
    update_packages();
    apt(&[["install", "-y", "--no-install-recommends"].as_slice(), packages].concat())?;
    let missing = missing().join(" ");
    ensure!(missing.is_empty(), "{missing}: installed, and yet not of use");
    Ok(())
}

/// Asks for the newest lists of packages.
pub(crate) fn update_packages() {
    if let Err(error) = apt(&["update"]) {
        println!("{error:#}: the packages are looked for in older lists");
    }
}

/// One run of apt-get.
///
/// # Errors
/// If it fails.
pub(crate) fn apt(arguments: &[&str]) -> Result<()> {
    // Another apt at work is waited for, be it the one that every new machine starts by itself.
    let mut apt = command("apt-get", &["-q", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=600"]);
    apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    run(apt)
}

/// The packages of all programs that are not there.
fn missing() -> Vec<&'static str> {
    let missing = PROGRAMS.iter().filter(|(program, question, _)| !is_there(program, question));
    missing.flat_map(|(.., packages)| packages.iter().copied()).collect()
}

/// memccapable has no harmless question: that it can be started is answer enough.
fn is_there(program: &str, question: &[&str]) -> bool {
    let mut asked = command(program, question);
    asked.stdout(Stdio::null()).stderr(Stdio::null());
    if program == "memccapable" { asked.status().is_ok() } else { answers(asked) }
}

/// Whether a command can be run and succeeds.
pub(crate) fn answers(mut question: Command) -> bool {
    question.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Unpacks etcd below the target directory instead of installing it: its package would start a service.
fn etcd() -> Result<()> {
    let folder = target_directory().join("etcd");
    let is_there = |program: &Path| answers(command(&path(program), &["--version"]));
    let programs = [folder.join("unpacked/usr/bin/etcd"), "/usr/bin/etcd".into()];
    if std::env::var_os("EVENKEEL_TEST_ETCD").is_some() || programs.iter().any(|program| is_there(program)) {
        println!("etcd is there");
        return Ok(());
    }
    if !answers(command("apt-get", &["--version"])) {
        println!(
            "left out: tests of the control plane with a real etcd; there is none, and no apt-get to get one"
        );
        return Ok(());
    }
    fs::create_dir_all(&folder)?;
    if is_root() {
        update_packages();
    }
    persevere(|| {
        let mut download = command("apt-get", &["-q", "-o", "Acquire::Retries=3", "download", "etcd-server"]);
        download.current_dir(&folder);
        run(download)
    })?;
    for entry in fs::read_dir(&folder)? {
        let package = entry?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            run(command("dpkg-deb", &["-x", &path(&package), &path(&folder.join("unpacked"))]))?;
            fs::remove_file(&package)?;
        }
    }
    ensure!(is_there(&programs[0]), "{} does not run", programs[0].display());
    Ok(())
}

fn python() -> Result<()> {
    let environment = clients::python_environment();
    let wanted = clients::sources().join("python/requirements.txt");
    once(&environment, &wanted, || {
        run(command("python3", &["-m", "venv", &path(&environment)]))?;
        let pip = path(&environment.join("bin/pip"));
        run(command(&pip, &["install", "--quiet", "--disable-pip-version-check", "-r", &path(&wanted)]))
    })
}

fn go() -> Result<()> {
    let home = clients::go_home();
    once(&home, &clients::sources().join("go/go.sum"), || {
        let mut download = clients::go();
        download.args(["mod", "download"]).stdin(Stdio::null());
        run(download)
    })
}

fn node() -> Result<()> {
    let project = clients::node_project();
    let lock = clients::sources().join("node/package-lock.json");
    once(&project, &lock, || {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(clients::sources().join("node").join(file), project.join(file))?;
        }
        let mut npm = command("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        npm.current_dir(&project);
        run(npm)
    })
}

fn java() -> Result<()> {
    let project = clients::java_project();
    let wanted = clients::sources().join("java/checksums.txt");
    once(&project, &wanted, || {
        fs::copy(clients::sources().join("java/pom.xml"), project.join("pom.xml"))?;
        let lib = project.join("lib");
        if lib.exists() {
            fs::remove_dir_all(&lib)?;
        }
        let mut maven =
            command("mvn", &["--quiet", "--batch-mode", "--no-transfer-progress", "--strict-checksums"]);
        maven.current_dir(&project).env("MAVEN_OPTS", MAVEN_OPTIONS);
        maven.arg(format!("-Dmaven.repo.local={}", project.join("repository").display()));
        maven.arg(format!("-DoutputDirectory={}", lib.display()));
        maven.arg("dependency:copy-dependencies");
        run(maven)?;
        let mut check = command("sha256sum", &["--check", "--strict", "--quiet", &path(&wanted)]);
        check.current_dir(&lib);
        run(check)
    })
}

/// Does the work unless the folder has a mark that it was done for just these versions.
fn once(folder: &Path, versions: &Path, work: impl Fn() -> Result<()>) -> Result<()> {
    let stamp = folder.join("installed");
    let wanted = fs::read(versions).with_context(|| format!("read {}", versions.display()))?;
    if fs::read(&stamp).is_ok_and(|done| done == wanted) {
        println!("{} is up to date", folder.display());
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    persevere(work)?;
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}

/// Does the work, more than once if it fails.
fn persevere(work: impl Fn() -> Result<()>) -> Result<()> {
    for attempt in 1..ATTEMPTS_MAX {
        let Err(error) = work() else { return Ok(()) };
        println!("{error:#}: once more in {} s", (PAUSE * attempt).as_secs());
        clock::pause(PAUSE * attempt);
    }
    work()
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
