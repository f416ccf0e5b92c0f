//! The commands of the pages in docs/tune/howto, run unchanged in network namespaces of their own.

use crate::support::lab;

use std::fs;
use std::path::{Path, PathBuf};

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tune/howto")
}

/// The blocks of a page that are marked `sh`.
fn commands(page: &str) -> String {
    let text = fs::read_to_string(pages().join(page)).unwrap();
    let mut commands = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        match line {
            "```sh" => is_inside = true,
            "```" => is_inside = false,
            line if is_inside => commands += &format!("{line}\n"),
            _ => {}
        }
    }
    assert!(!commands.is_empty(), "{page} has no commands");
    commands
}

/// Runs a page's commands, which must all succeed, and checks that their output has these words, in this order.
#[track_caller]
fn check(page: &str, queues: u32, words: &[&str]) {
    if !lab::can_be_made() {
        return;
    }
    let said = lab::says(&commands(page), queues);
    let mut rest = said.as_str();
    for word in words {
        let place = rest.find(word).unwrap_or_else(|| panic!("{word:?} is not, or not there, in\n{said}"));
        rest = &rest[place + word.len()..];
    }
}

#[test]
fn every_page_is_listed_and_named_in_a_test() {
    let list = fs::read_to_string(pages().join("README.md")).unwrap();
    let tests = include_str!("howto.rs");
    let names = fs::read_dir(pages()).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap());
    for page in names.filter(|name| name.ends_with(".md") && name != "README.md") {
        assert!(list.contains(&format!("]({page})")), "{page} is not in the list");
        assert!(tests.contains(&format!("\"{page}\"")), "{page} is not run");
    }
}

#[test]
fn one_cpu_handles_all_packets() {
    check(
        "one-cpu-handles-all-packets.md",
        1,
        &[
            "eth0/queues/rx-0/rps_cpus: 0 → ",
            "1 of 1 change is in force",
            "Confirmed",
            "eth0/queues/rx-0/rps_cpus = ",
            ": holds",
            "eth0/queues/rx-0/rps_cpus: restored",
        ],
    );
}

#[test]
fn which_layout_is_best() {
    check(
        "which-layout-is-best.md",
        4,
        &[
            "Not planned (irqbalance): eth0",
            "Not planned (spread): eth0: it has no interrupt that can be moved",
            "Not planned (irq0-rps): eth0",
            "== xps\n@@ /sys/class/net/eth0/queues/tx-0/xps_cpus @@",
            "gro_flush_timeout @@\n-0\n+50000",
            "none:   rate",
            "xps:   rate",
            "xps:   rate",
            "none:   rate",
        ],
    );
}

#[test]
fn refused_and_waiting() {
    check(
        "refused-and-waiting.md",
        4,
        &[
            "accept-stalled  10.77.0.1:11212",
            "is stopped, while",
            "waiting / backlog of 10.77.0.1:11212: ",
            " / 16",
            "/proc/sys/net/core/somaxconn: 16 → 4096",
            "LISTEN 0      4096       10.77.0.1:11212",
            "scheduling-delay  evenkeel",
            " of evenkeel ",
            "changes are in force",
            ": restored",
            "changes are in force",
            "fifo 1",
            ": restored",
            "somaxconn = 4096: holds",
        ],
    );
}

#[test]
fn an_interrupt_for_every_packet() {
    check(
        "an-interrupt-for-every-packet.md",
        4,
        &[
            "interrupt-per-packet",
            "2 of 2 changes are in force",
            "gro_flush_timeout = 50000: holds",
            "napi_defer_hard_irqs = 100: holds",
            "xps_cpus",
            ": restored",
        ],
    );
}

#[test]
fn polling_in_place_of_interrupts() {
    let has = |program: &str| std::process::Command::new(program).arg("--version").output().is_ok();
    if !(has("ethtool") || has("python3")) {
        return eprintln!("there is neither ethtool nor python3 here");
    }
    // A plan refuses on older kernels, and then nothing can be applied.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(13)) {
        return eprintln!("Linux {release} cannot suspend interrupts");
    }
    check(
        "polling-in-place-of-interrupts.md",
        2,
        &[
            "NAPI 0 of eth0: defer-hard-irqs=0 gro-flush-timeout=0 irq-suspend-timeout=0 → ",
            "2 of 2 changes are in force",
            "rate",
            "irq-suspend-timeout=20000000: holds",
            "irq-suspend-timeout=20000000: holds",
            "NAPI 1 of eth0: restored",
            "NAPI 0 of eth0: restored",
        ],
    );
}

#[test]
fn a_host_for_mysql() {
    if !Path::new("/usr/sbin/mariadbd").exists() {
        return eprintln!("there is no /usr/sbin/mariadbd here");
    }
    check("a-host-for-mysql.md", 4, &["[mysqld]", "innodb_buffer_pool_size = ", "innodb-buffer-pool-size  "]);
}
