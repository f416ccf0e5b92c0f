//! Units of systemd: accepted, with a sandbox that is the same in all of them.

use crate::tools::{have, workshop};
use checkout::workspace;
use std::fs;
use std::path::Path;
use std::process::Command;

const ANALYZE: (&str, &str) = ("systemd-analyze", "Debian: systemd");

/// Exposure that `systemd-analyze security` may find, times ten.
const EXPOSURE_MAX: &str = "20";

/// The unit that has no sandbox: it changes the settings of the host as root.
const WITHOUT_SANDBOX: &str = "evenkeel-tune-watch.service";

/// Names and texts of the units that end so.
pub(super) fn units(end: &str) -> Vec<(String, String)> {
    let folder = fs::read_dir(workspace().join("packaging/units")).expect("units");
    let paths = folder.map(|entry| entry.expect("a unit").path());
    let mut units: Vec<(String, String)> = paths
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())
        })
        .filter(|(name, _)| name.ends_with(end))
        .collect();
    units.sort();
    assert!(!units.is_empty(), "there is no unit that ends with {end}");
    units
}

#[test]
fn systemd_accepts_the_units() {
    if !have(&[ANALYZE]) {
        return;
    }
    let folder = workshop(Path::new("/bin/true"), "units").out;
    fs::create_dir_all(&folder).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    for (name, text) in units("") {
        // The program must exist, and an instance is verified rather than its template.
        fs::write(folder.join(&name), text.replace("/usr/bin/evenkeel", "/bin/true")).unwrap();
        verify.arg(folder.join(name.replace("@.", "@web.")));
    }
    let output = verify.env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display())).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{complaint}");
}

#[test]
fn units_are_exposed_no_more_than_two_of_ten() {
    if !have(&[ANALYZE]) {
        return;
    }
    for (name, _) in units(".service") {
        let unit = workspace().join("packaging/units").join(&name);
        let mut security = Command::new("systemd-analyze");
        security.args(["security", "--no-pager", "--offline=true", "--threshold", EXPOSURE_MAX]).arg(unit);
        let output = security.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.success(), name != WITHOUT_SANDBOX, "{name}: {said}");
        println!("{}", said.lines().last().unwrap_or_default());
    }
}

#[test]
fn the_sandbox_is_the_same_in_all_units() {
    let sandbox = |text: &str| -> String {
        let lines = text.lines().skip_while(|line| !line.starts_with("# Sandbox"));
        // What a unit has besides stands below.
        let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("SystemCallErrorNumber=")).collect();
        lines.join("\n")
    };
    let with_one: Vec<_> =
        units(".service").into_iter().filter(|(name, _)| name != WITHOUT_SANDBOX).collect();
    let first = sandbox(&with_one[0].1);
    assert!(first.contains("\nSystemCallFilter="), "{first}");
    for (name, text) in &with_one {
        assert_eq!(sandbox(text), first, "{name}");
    }
}
