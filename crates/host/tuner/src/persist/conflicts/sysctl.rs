//! Other sources of the same sysctl: files of sysctl.d in systemd's order, /etc/sysctl.conf, tuned.

use super::conflict::{Conflict, Kept, Winner};
use crate::observe::root::{Error, Root};
use crate::persist::ordered::{acting, ordered, resolved};
use crate::persist::parse::{Assignment, sysctls};

/// Directories of sysctl.d(5), those that hide files of the same name first.
const DIRECTORIES: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

const LEGACY: &str = "/etc/sysctl.conf";

/// Our file's place in the order.
const OURS: &str = "90-evenkeel.conf";

/// Sysctls that were removed from kernels, the version that removed them, and their replacement.
const DEAD: [(&str, (u32, u32), &str); 8] = [
    ("kernel.sched_latency_ns", (5, 13), "it is /sys/kernel/debug/sched/latency_ns, and gone since 6.6"),
    ("kernel.sched_min_granularity_ns", (5, 13), "it is /sys/kernel/debug/sched/base_slice_ns since 6.6"),
    ("kernel.sched_wakeup_granularity_ns", (5, 13), "it is in /sys/kernel/debug/sched, and gone since 6.6"),
    ("kernel.sched_migration_cost_ns", (5, 13), "it is /sys/kernel/debug/sched/migration_cost_ns"),
    ("kernel.sched_nr_migrate", (5, 13), "it is /sys/kernel/debug/sched/nr_migrate"),
    ("kernel.sched_tunable_scaling", (5, 13), "it is /sys/kernel/debug/sched/tunable_scaling"),
    ("net.ipv4.tcp_tw_recycle", (4, 12), "it broke connections from behind address translation"),
    ("net.ipv4.tcp_low_latency", (4, 14), "it is read and written, and changes nothing"),
];

struct Wanted<'k> {
    key: String,
    value: &'k str,
}

pub(super) fn conflicts(root: &Root, kept: &Kept) -> Result<Vec<Conflict>, Error> {
    let wanted: Vec<Wanted> = kept
        .files()
        .filter_map(|(path, value)| {
            Some(Wanted { key: path.strip_prefix("/proc/sys/")?.replace('.', "\0"), value })
        })
        // Points inside of names are slashes, as `sysctls` gives them.
        .map(|wanted| Wanted { key: wanted.key.replace('/', ".").replace('\0', "/"), ..wanted })
        .collect();
    let mut found = Vec::new();
    let files = ordered(root, &DIRECTORIES, ".conf")?;
    for file in &files {
        let winner = if file.name.as_str() > OURS { Winner::Theirs } else { Winner::Ours };
        look(&mut found, kept, &wanted, &file.path, &sysctls(&file.text), winner, |name| match winner {
            Winner::Theirs => {
                format!("{} is read after {OURS}: take the line out of it, or keep its value", name)
            }
            _ => format!("{OURS} is read after it; take the line out to avoid confusion"),
        });
    }
    let legacy = resolved(root, LEGACY);
    if let Some(path) = legacy.filter(|path| !files.iter().any(|file| file.path == *path)) {
        let systemd =
            root.exists("/usr/lib/systemd/systemd-sysctl") || root.exists("/lib/systemd/systemd-sysctl");
        let winner = if systemd { Winner::Unsure } else { Winner::Theirs };
        let text = root.read(&path)?.unwrap_or_default();
        look(&mut found, kept, &wanted, &path, &sysctls(&text), winner, |name| match winner {
            Winner::Unsure => {
                format!(
                    "systemd does not read {name} at boot, but `sysctl -p` and `sysctl --system` do: take the line out"
                )
            }
            _ => format!("{name} is read last of all: take the line out of it, or keep its value"),
        });
    }
    found.extend(tuned(root, kept, &wanted)?);
    Ok(found)
}

fn look(
    found: &mut Vec<Conflict>,
    kept: &Kept,
    wanted: &[Wanted],
    path: &str,
    assignments: &[Assignment],
    winner: Winner,
    advice: impl Fn(&str) -> String,
) {
    for assignment in assignments {
        let place = format!("{path}:{}", assignment.line);
        let Some(value) = &assignment.value else { continue };
        let sets = format!("{} = {value}", assignment.key);
        if let Some((_, version, left)) = DEAD.iter().find(|(key, ..)| *key == assignment.key) {
            if kept.facts.kernel.version >= *version {
                let (major, minor) = version;
                let advice =
                    format!("it has no effect since Linux {major}.{minor} ({left}): take the line out");
                found.push(Conflict { place, sets, winner: Winner::Neither, advice });
            }
            continue;
        }
        let same = |wanted: &&Wanted| matches(&assignment.key, &wanted.key);
        for wanted in wanted.iter().filter(same).filter(|wanted| !equal(wanted.value, value)) {
            let is_pattern = assignment.key != wanted.key;
            // A key without a pattern is set after all patterns, wherever it stands.
            let winner = if is_pattern && winner == Winner::Theirs { Winner::Ours } else { winner };
            found.push(Conflict { place: place.clone(), sets: sets.clone(), winner, advice: advice(path) });
        }
    }
}

/// tuned sets its profile's sysctls, and then, unless told not to, again those of /etc/sysctl.d.
fn tuned(root: &Root, kept: &Kept, wanted: &[Wanted]) -> Result<Vec<Conflict>, Error> {
    let mut found = Vec::new();
    // A profile that was chosen once has no effect where tuned does not start any more.
    let starts = kept.facts.agents.iter().any(|agent| agent.name == "tuned")
        || root.link("/etc/systemd/system/multi-user.target.wants/tuned.service").is_some();
    let Some(active) = root.read("/etc/tuned/active_profile")?.filter(|_| starts) else { return Ok(found) };
    let main = root.read("/etc/tuned/tuned-main.conf")?.unwrap_or_default();
    let reapply = acting(&main).find_map(|(_, line)| option(line, "reapply_sysctl"));
    let ours_again = !matches!(reapply.map(str::to_lowercase).as_deref(), Some("0" | "false" | "no" | "off"));
    let mut open: Vec<String> = active.split_whitespace().map(str::to_owned).collect();
    let mut seen = Vec::new();
    while let Some(profile) = open.pop().filter(|profile| !seen.contains(profile)) {
        seen.push(profile.clone());
        let places = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
        let paths = places.map(|place| format!("{place}/{profile}/tuned.conf"));
        let Some(path) = paths.into_iter().find(|path| root.exists(path)) else { continue };
        let text = root.read(&path)?.unwrap_or_default();
        let mut section = "";
        for (line, words) in acting(&text) {
            if let Some(name) = words.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
            } else if section == "main"
                && let Some(included) = option(words, "include")
            {
                open.extend(included.split(',').map(|name| name.trim().to_owned()));
            } else if section == "sysctl" {
                let assignments: Vec<_> =
                    sysctls(words).into_iter().map(|found| Assignment { line, ..found }).collect();
                let winner = if ours_again { Winner::Ours } else { Winner::Theirs };
                look(&mut found, kept, wanted, &path, &assignments, winner, |_| {
                    match winner {
                    Winner::Ours => "tuned sets its own value and then /etc/sysctl.d again (reapply_sysctl)".to_owned(),
                    _ => "tuned has reapply_sysctl=0, so its profile wins: set the value there, or reapply_sysctl=1".to_owned(),
                }
                });
            } else if section == "vm" && huge_pages(words, kept) {
                let advice = "tuned writes it when it starts: take it out of the profile, or keep its value"
                    .to_owned();
                let place = format!("{path}:{line}");
                found.push(Conflict { place, sets: words.to_owned(), winner: Winner::Theirs, advice });
            }
        }
    }
    Ok(found)
}

/// Whether this line of a profile sets huge pages to another value than the kept one.
fn huge_pages(line: &str, kept: &Kept) -> bool {
    let value = option(line, "transparent_hugepages").or_else(|| option(line, "transparent_hugepage"));
    let ours = kept.files().find(|(path, _)| *path == "/sys/kernel/mm/transparent_hugepage/enabled");
    matches!((value, ours), (Some(theirs), Some((_, ours))) if theirs != ours)
}

fn option<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (key, value) = line.split_once('=')?;
    (key.trim() == name).then_some(value.trim())
}

/// Whether the other value has the same words, or is one that tuned only raises to (`>2048`) and ours is as high.
fn equal(ours: &str, theirs: &str) -> bool {
    let least = theirs.strip_prefix('>').and_then(|least| least.trim().parse::<i64>().ok());
    match (least, ours.parse::<i64>()) {
        (Some(least), Ok(ours)) => ours >= least,
        _ => ours.split_whitespace().eq(theirs.split_whitespace()),
    }
}

/// Whether a key, which may be a pattern with `*` and `?`, names this one.
fn matches(pattern: &str, key: &str) -> bool {
    match (pattern.chars().next(), key.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            let rest = &pattern[1..];
            // A star does not match a point.
            let reach = key.find('.').unwrap_or(key.len());
            (0..=reach).filter(|at| key.is_char_boundary(*at)).any(|at| matches(rest, &key[at..]))
        }
        (Some(p), Some(k)) if p == '?' || p == k => matches(&pattern[p.len_utf8()..], &key[k.len_utf8()..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_do_not_reach_over_points() {
        for (pattern, key, expected) in [
            ("net.core.somaxconn", "net.core.somaxconn", true),
            ("net.core.*", "net.core.somaxconn", true),
            ("net.*", "net.core.somaxconn", false),
            ("net.*.somaxconn", "net.core.somaxconn", true),
            ("vm.swappines?", "vm.swappiness", true),
            ("vm.swappines", "vm.swappiness", false),
        ] {
            assert_eq!(matches(pattern, key), expected, "{pattern} {key}");
        }
    }
}
