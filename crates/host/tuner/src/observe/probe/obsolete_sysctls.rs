//! Obsolete sysctls in configuration files, which no current kernel reads: the user relies on settings without
//! effect.

use std::collections::BTreeMap;

use super::view::ProbeView;

/// The directories of sysctl.d(5), later ones later.
const DIRECTORIES: [&str; 4] =
    ["/usr/lib/sysctl.d", "/usr/local/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d"];

/// Names, or beginnings of names, that were removed. A name that is missing for another reason (a module that is not
/// loaded) is not among them.
const GONE: [&str; 9] = [
    "kernel.sched_latency_ns",
    "kernel.sched_min_granularity_ns",
    "kernel.sched_wakeup_granularity_ns",
    "kernel.sched_migration_cost_ns",
    "kernel.sched_nr_migrate",
    "kernel.sched_tunable_scaling",
    "net.ipv4.tcp_tw_recycle",
    "net.ipv4.tcp_max_ssthresh",
    "net.ipv4.tcp_fack",
];

pub(super) fn obsolete_sysctls(view: &ProbeView) -> BTreeMap<String, String> {
    let in_directory = |directory: &str| -> Vec<String> {
        let names = view.names(directory).into_iter().filter(|name| name.ends_with(".conf"));
        names.map(|name| format!("{directory}/{name}")).collect()
    };
    let mut files: Vec<String> = DIRECTORIES.iter().flat_map(|directory| in_directory(directory)).collect();
    files.push("/etc/sysctl.conf".to_owned());
    let mut dead = BTreeMap::new();
    for file in files {
        for name in view.lines(&file).iter().filter_map(|line| name(line)) {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            if GONE.contains(&name.as_str()) && !view.root.exists(&path) {
                dead.insert(name, file.clone());
            }
        }
    }
    dead
}

/// The name in `kernel.sched_latency_ns = 1`, which may be written with slashes and after a minus sign.
fn name(line: &str) -> Option<String> {
    let line = line.trim();
    let (name, _) = line.split_once('=').filter(|_| !line.starts_with(['#', ';']))?;
    Some(name.trim().trim_start_matches('-').replace('/', "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_setting_in_one_of_several_ways() {
        for (line, expected) in [
            ("kernel.sched_latency_ns=1", Some("kernel.sched_latency_ns")),
            (" -net/ipv4/tcp_fack = 0", Some("net.ipv4.tcp_fack")),
            ("# net.ipv4.tcp_fack = 0", None),
            ("; net.ipv4.tcp_fack = 0", None),
            ("", None),
        ] {
            assert_eq!(name(line).as_deref(), expected, "{line}");
        }
    }
}
