//! Command lines of units, drop-ins, configuration files and deploy/compose.yaml: the binary accepts them.
//!
//! Nothing here serves: each verb is asked for something that it does once it has read its command line.

use super::units::units;
use crate::tools::{binary, workshop};
use checkout::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Command lines of the units and drop-ins: the file, and the words behind the program.
fn of_units() -> Vec<(String, Vec<String>)> {
    let drop_in = |name: &str| {
        (name.to_owned(), fs::read_to_string(workspace().join("packaging/dropins").join(name)).expect(name))
    };
    let mut found = Vec::new();
    for (file, text) in units(".service").into_iter().chain([drop_in("warm.conf")]) {
        let commands = text.lines().filter_map(|line| line.strip_prefix("Exec")?.split_once('='));
        for (_, command) in commands.filter(|(_, command)| command.starts_with("/usr/bin/evenkeel ")) {
            let words = command.split_whitespace().skip(1).map(expanded).collect();
            found.push((file.clone(), words));
        }
    }
    found
}

/// What systemd makes of a word, with the files of the package in a folder of the test.
fn expanded(word: &str) -> String {
    // An instance has the same flags as the server without a name.
    word.replace("/%i.conf", "/serve.conf").replace("/etc/evenkeel/", &format!("{}/", config().display()))
}

fn config() -> PathBuf {
    workshop(Path::new("none"), "config").out
}

/// Copies the files of the package, in which /etc/evenkeel is that folder: the host's own says nothing of the package.
fn copy_config() {
    let to = config();
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(workspace().join("packaging/config")).expect("files") {
        let from = entry.unwrap().path();
        let text =
            fs::read_to_string(&from).expect("text").replace("/etc/evenkeel/", &format!("{}/", to.display()));
        fs::write(to.join(from.file_name().expect("a name")), text).unwrap();
    }
}

/// Words of deploy/compose.yaml: each `command:` is a list as in JSON, on one line.
fn of_compose() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(workspace().join("deploy/compose.yaml")).expect("compose.yaml");
    let commands = text.lines().filter_map(|line| line.trim().strip_prefix("command: "));
    let commands = commands.map(|list| serde_json::from_str::<Vec<String>>(list).expect("a list in quotes"));
    let ours = commands.filter(|words| !words[0].starts_with("--config.file"));
    // The image reads flags without a verb as those of `serve`.
    let with_verb = |words: Vec<String>| match words[0].starts_with('-') {
        true => [vec!["serve".to_owned()], words].concat(),
        false => words,
    };
    ours.map(|words| ("compose.yaml".to_owned(), with_verb(words))).collect()
}

#[test]
fn every_command_of_the_packages_is_accepted() {
    let Some(binary) = binary() else { return };
    copy_config();
    let all: Vec<_> = of_units().into_iter().chain(of_compose()).collect();
    for verb in ["serve", "route", "replay", "control", "agent", "tune"] {
        assert!(all.iter().any(|(_, words)| words[0] == verb), "no unit runs {verb}");
    }
    for (file, words) in all {
        check(&binary, &file, &words);
    }
}

#[track_caller]
fn check(binary: &Path, file: &str, words: &[String]) {
    // A test of pages checks it there, and how it ends is no file's question.
    if words[0] == "tune" {
        let page = fs::read_to_string(workspace().join("docs/tune/watch.md")).expect("a page");
        return assert!(
            page.contains(&format!("ExecStart=/usr/bin/evenkeel {}\n", words.join(" "))),
            "{file}"
        );
    }
    let scratch = workshop(binary, "commands").out;
    fs::create_dir_all(&scratch).unwrap();
    let mut command = Command::new(binary);
    // A folder that is there, with nothing to send.
    command.args(
        words.iter().map(|word| word.replace("/var/lib/evenkeel/deletes", &scratch.display().to_string())),
    );
    match &*words[0] {
        "serve" => command.arg("--license"),
        "route" => command.arg("--validate-config"),
        "replay" => command.arg("--dry-run"),
        // Their certificates are made by an authority that no package has.
        _ => &mut command,
    };
    let output = command.output().expect("the binary");
    let complaint = String::from_utf8_lossy(&output.stderr);
    match &*words[0] {
        "control" | "agent" => assert!(complaint.contains("certificate.pem: "), "{file}: {complaint}"),
        _ => assert!(output.status.success(), "{file}: evenkeel {}: {complaint}", words.join(" ")),
    }
}
