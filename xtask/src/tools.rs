//! What the tests need beyond Rust: a memcached, libmemcached's checker, and the clients people use.
//!
//! Programs come from the system's packages; the clients go under the target directory and touch nothing else.

use crate::steps::{cargo, command, run};
use anyhow::{Context, Result, bail};
use end_to_end::clients;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program, how it is asked whether it is there, and the Debian packages that have it.
const PROGRAMS: [(&str, &[&str], &[&str]); 6] = [
    ("memcached", &["-V"], &["memcached"]),
    ("memccapable", &["-a", "-h", "127.0.0.1", "-p", "1", "-T", "none"], &["libmemcached-tools"]),
    ("python3", &["-c", "import venv, ensurepip"], &["python3", "python3-venv"]),
    ("go", &["version"], &["golang-go"]),
    ("node", &["--version"], &["nodejs"]),
    ("npm", &["--version"], &["npm"]),
];

/// Installs what is missing.
///
/// # Errors
/// Says what is missing and how to get it, where it may not be installed from here.
pub(crate) fn install() -> Result<()> {
    rust_components()?;
    packages()?;
    python().context("install the Python clients from PyPI")?;
    go().context("install the Go client through the Go module proxy")?;
    node().context("install the Node client from npm")
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
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, question, _)| !is_there(program, question))
        .flat_map(|(_, _, packages)| packages.iter().copied())
        .collect();
    if missing.is_empty() {
        println!("all programs are there");
        return Ok(());
    }
    let hint = format!("hint: as root, `apt-get install {}`", missing.join(" "));
    if !answers(command("apt-get", &["--version"])) || !is_root() {
        bail!("missing and not to be installed from here: {}\n{hint}", missing.join(" "));
    }
    println!("missing: {}", missing.join(" "));
    let apt = |arguments: &[&str]| {
        let mut apt = command("apt-get", arguments);
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        run(apt).context(hint.clone())
    };
    apt(&["update", "-q"])?;
    apt(&[["install", "-q", "-y", "--no-install-recommends"].as_slice(), &missing].concat())
}

/// memccapable has no harmless question: that it can be started is answer enough.
fn is_there(program: &str, question: &[&str]) -> bool {
    let mut asked = command(program, question);
    asked.stdout(Stdio::null()).stderr(Stdio::null());
    if program == "memccapable" { asked.status().is_ok() } else { answers(asked) }
}

fn answers(mut question: Command) -> bool {
    question.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
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

/// Does the work unless the folder says that it was done for just these versions.
fn once(folder: &Path, versions: &Path, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = folder.join("installed");
    let wanted = fs::read(versions).with_context(|| format!("read {}", versions.display()))?;
    if fs::read(&stamp).is_ok_and(|done| done == wanted) {
        println!("{} is up to date", folder.display());
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    work()?;
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
