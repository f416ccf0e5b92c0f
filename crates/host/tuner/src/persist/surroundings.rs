//! Means of a host that can keep settings over a restart.

use super::ordered::{Ordered, ordered};
use crate::observe::root::{Error, Root};

/// The available means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMeans {
    /// The program that the boot unit starts: ours.
    pub program: String,
    /// Whether systemd starts this host: units, drop-ins, tmpfiles.d.
    pub systemd: bool,
    /// Whether udev handles new devices.
    pub udev: bool,
    /// Whether a program reads sysctl.d at boot.
    pub sysctl: bool,
    /// The command of irqbalance, the words behind `ExecStart=`; `None`: it is not installed as a unit.
    pub irqbalance: Option<String>,
    /// The environment file that gives irqbalance a policy script already.
    pub policy: Option<String>,
    /// `.link` files, in their order.
    pub links: Vec<Ordered>,
}

/// The directories of units, those that win first.
pub(crate) const UNITS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The directories of `.link` files; a name in an earlier one hides the same name in a later one.
pub(super) const LINKS: [&str; 5] = [
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/local/lib/systemd/network",
    "/usr/lib/systemd/network",
    "/lib/systemd/network",
];

impl HostMeans {
    /// Reads the host's means.
    pub fn read(root: &Root, program: String) -> Result<HostMeans, Error> {
        let any = |paths: &[&str]| paths.iter().any(|path| root.exists(path));
        let systemd = any(&["/usr/lib/systemd/systemd", "/lib/systemd/systemd"]);
        let unit = irqbalance_unit(root)?;
        let mut policy = None;
        for path in unit.iter().flat_map(|unit| environment_files(unit)) {
            let text = root.read(&path)?.unwrap_or_default();
            let sets = |line: &str| !line.trim_start().starts_with('#') && line.contains("policyscript");
            policy = policy.or(text.lines().any(sets).then_some(path));
        }
        let irqbalance = unit.as_deref().and_then(exec_start);
        Ok(HostMeans {
            program,
            systemd,
            udev: any(&[
                "/usr/lib/systemd/systemd-udevd",
                "/lib/systemd/systemd-udevd",
                "/usr/bin/udevadm",
                "/bin/udevadm",
                "/sbin/udevd",
                "/usr/sbin/udevd",
            ]),
            // Without systemd it is an init script that calls `sysctl --system`.
            sysctl: any(&["/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"])
                || (!systemd && any(&["/etc/init.d/procps", "/etc/init.d/sysctl"])),
            irqbalance,
            policy,
            links: ordered(root, &LINKS, ".link")?,
        })
    }

    /// The missing means, in words.
    pub fn gaps(&self) -> Vec<&'static str> {
        let gaps = [
            (self.systemd, "there is no systemd here, so no units, drop-ins or tmpfiles.d"),
            (self.udev, "there is no udev here, so nothing sets a device's values when it comes"),
            (self.sysctl, "nothing here reads sysctl.d at boot"),
        ];
        gaps.into_iter().filter(|(there, _)| !there).map(|(_, gap)| gap).collect()
    }
}

/// irqbalance's unit, the one that wins.
pub(super) fn irqbalance_unit(root: &Root) -> Result<Option<String>, Error> {
    for directory in UNITS {
        if let Some(unit) = root.read(&format!("{directory}/irqbalance.service"))? {
            return Ok(Some(unit));
        }
    }
    Ok(None)
}

/// The environment files of a unit; distributions differ.
pub(super) fn environment_files(unit: &str) -> Vec<String> {
    let values = unit.lines().filter_map(|line| line.trim().strip_prefix("EnvironmentFile="));
    values
        .map(|value| value.trim().trim_start_matches('-').to_owned())
        .filter(|path| path.starts_with('/'))
        .collect()
}

/// The last `ExecStart=` of a unit that is not taken back, continued lines put together.
fn exec_start(unit: &str) -> Option<String> {
    let unit = unit.replace("\\\n", " ");
    let mut found = None;
    for value in unit.lines().filter_map(|line| line.trim().strip_prefix("ExecStart=")) {
        found = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_start_that_is_not_taken_back_counts() {
        let check = |unit: &str, expected: Option<&str>| {
            assert_eq!(exec_start(unit).as_deref(), expected, "{unit}");
        };
        check("[Service]\nExecStart=/usr/sbin/irqbalance $A\n", Some("/usr/sbin/irqbalance $A"));
        check("ExecStart=/a\nExecStart=\nExecStart=/b \\\n  --c", Some("/b    --c"));
        check("ExecStart=/a\nExecStart=", None);
        check("[Unit]", None);
    }
}
