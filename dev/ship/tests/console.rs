//! The console in a browser: every page of a running cluster, with hostile names, without a word on the browser's console.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use checkout::target_directory;
use ship::commands::said;

use crate::tools::{binary, have};

mod browser;

/// A cluster, and where its console is.
struct Cluster {
    child: Child,
    console: String,
    folder: PathBuf,
    /// What it has said until then.
    said: String,
}

impl Cluster {
    fn start(name: &str, port: u16) -> Option<Cluster> {
        let folder = target_directory().join("tmp").join(format!("console-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let mut command = Command::new(binary()?);
        command
            .args(["up", "--port", &port.to_string(), "--servers", "3", "--memory", "16", "--dir"])
            .arg(folder.join("up"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("start");
        let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        let mut said = lines.map_while(Result::ok);
        let mut before = String::new();
        let console = said.find_map(|line| {
            before += &format!("{line}\n");
            Some(line.trim().strip_prefix("console")?.trim().to_owned())
        });
        let console = console.expect("the address of the console");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || said.for_each(drop));
        Some(Cluster { child, console, folder, said: before })
    }

    /// What it has said between these words and the next space.
    fn named(&self, words: &str) -> &str {
        let (_, rest) = self.said.split_once(words).unwrap_or_else(|| panic!("{words}: {}", self.said));
        rest.split_whitespace().next().expect("an address follows")
    }

    fn control(&self, words: &[&str]) {
        let mut command = Command::new(binary().expect("it was there"));
        let place = format!("unix:{}", self.folder.join("up/control.sock").display());
        said(command.arg("control").args(words).env("EVENKEEL_CONTROL", place)).expect("an answer");
    }

    /// What the browser shows of a page when it was drawn, and what it has complained about.
    fn opened(&self, page: &str) -> (String, Vec<String>) {
        let profile = self.folder.join("browser");
        let mut browser = Command::new("chromium");
        // As root, a browser runs without its sandbox only. It asks its maker nothing by itself.
        browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]);
        browser.args(["--no-first-run", "--disable-component-update", "--enable-logging=stderr"]);
        browser.args(["--virtual-time-budget=5000", "--dump-dom"]);
        browser.arg(format!("--user-data-dir={}", profile.display())).arg(format!("{}{page}", self.console));
        let output = browser.stdin(Stdio::null()).output().expect("a browser");
        let errors = String::from_utf8_lossy(&output.stderr);
        let complaints = errors.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        (String::from_utf8_lossy(&output.stdout).into_owned(), complaints)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Its members end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn every_page_is_drawn_and_hostile_texts_are_texts() {
    if !have(&[("chromium", "Debian: chromium")]) {
        return;
    }
    let Some(cluster) = Cluster::start("pages", 23500) else { return };
    cluster.control(&["freeze", "cluster/cache", "--why", "<img src=x onerror=alert(1)>"]);
    let hostile = "<b>key</b>%E2%80%AE";
    for (page, expected) in [
        ("#/", &["3 serving, 1 spare of 4", "&lt;img src=x onerror=alert(1)&gt;", "class=\"slot good\""][..]),
        ("#/cluster/cache", &["Cluster <bdi", "server-1"]),
        ("#/server/server-1", &["Requests per second", "evenkeel control drain server-1"]),
        ("#/routers", &["All routers of a view run the same configuration."]),
        ("#/host/here", &["What limits it", "the agent's file does not allow it"]),
        (&format!("#/key/{hostile}"), &["&lt;b&gt;key&lt;/b&gt;\\u{202e}", "by generation 1"]),
        ("#/history", &["Generation 1", " UTC</time> by <bdi", "No host was changed yet."]),
        ("#/nothing/at/all", &["Needs you"]),
    ] {
        let (text, complaints) = cluster.opened(page);
        assert_eq!(complaints, Vec::<String>::new(), "{page}");
        for words in expected {
            assert!(text.contains(words), "{page}: expected {words:?} in {text}");
        }
        assert!(text.contains("id=\"banner\" role=\"status\" hidden"), "{page}: {text}");
        assert!(!text.contains("<img") && !text.contains("<b>"), "{page}: {text}");
    }
}
