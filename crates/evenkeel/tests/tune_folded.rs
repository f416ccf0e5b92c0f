//! Folded lines: many settings or plans that differ only in numbers, printed as one line by `evenkeel tune`, on either
//! stream.

use std::fs;

use crate::support::journal::edit;
use crate::support::many::{Many, QUEUES};

#[test]
fn sixty_four_like_settings_are_one_line() {
    let host = Many::new("settings");
    host.says("apply", 0, &["64 of 64 changes are in force."], &[]);
    let of_all =
        |line: &str| format!("  /sys/class/net/eth0/queues/rx-{line} (and {} more like it)", QUEUES - 1);
    host.says("status", 0, &[&of_all("0/rps_cpus = 3: holds")], &[]);
    host.each(|queue| fs::write(queue, "5\n").unwrap());
    host.says("status", 13, &[&of_all("0/rps_cpus = 3: DRIFTED: it reads \"5\"")], &[]);
    // Nothing can be written to a directory.
    host.each(|queue| {
        fs::remove_file(queue).unwrap();
        fs::create_dir(queue).unwrap();
    });
    let why = "63/rps_cpus: Is a directory (os error 21)";
    let failed = format!("evenkeel: tune: undo everything: {}", of_all(why).trim_start());
    host.says("rollback", 1, &[&of_all(&why.replace(": Is", ": NOT restored: Is"))], &[&failed]);
    host.each(|queue| {
        fs::remove_dir(queue).unwrap();
        fs::write(queue, "5\n").unwrap();
    });
    let kept = "63/rps_cpus: kept at 5, to which it was changed after the plan; before the plan it was 0";
    host.says("rollback", 0, &[&of_all(kept)], &[]);
    host.each(|queue| assert_eq!(fs::read_to_string(queue).unwrap(), "5\n"));
}

#[test]
fn sixty_four_interrupts_that_move_later_are_one_line() {
    let host = Many::new("pending");
    let mut plan = fs::read_to_string(host.plan()).unwrap();
    for irq in 0..QUEUES {
        let directory = host.interrupt(irq);
        fs::create_dir_all(&directory).unwrap();
        // CPU 0 handled it, until it occurs again.
        fs::write(directory.join("smp_affinity"), "1\n").unwrap();
        fs::write(directory.join("effective_affinity"), "1\n").unwrap();
        let queue = format!("/sys/class/net/eth0/queues/rx-{irq}/rps_cpus");
        plan = plan.replace(&queue, &format!("/proc/irq/{irq}/smp_affinity"));
    }
    fs::write(host.plan(), plan.replace("\"now\":\"0\"", "\"now\":\"1\"").replace("\"3\"", "\"2\"")).unwrap();
    let moves = "Interrupt 0 moves when it occurs the next time; `evenkeel tune status` shows it. (and 63 more like it)";
    host.says("apply", 0, &["64 of 64 changes are in force.", moves], &[]);
    let status = "  /proc/irq/0/smp_affinity = 2: holds; CPUs 0 handled it the last time, and it moves when it occurs again \
                  (`watch` checks that) (and 63 more like it)";
    host.says("status", 0, &[status], &[]);
}

#[test]
fn plans_that_are_overdue_elsewhere_are_a_line_with_its_end() {
    let host = Many::new("overdue");
    host.says("apply", 0, &["64 of 64 changes are in force."], &[]);
    let sed =
        "s/\"network\":null/\"network\":\"net:[4026539999]\"/; s/\"confirm_by_ms\":null/\"confirm_by_ms\":1/";
    edit(&host.journal(1), sed);
    let journal = fs::read_to_string(host.journal(1)).unwrap();
    assert!(journal.contains("net:[") && journal.contains("_ms\":1"), "{journal}");
    for number in 2..=5 {
        fs::write(host.journal(number), &journal).unwrap();
    }
    let output = host.tune("status").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert_eq!((lines[0], lines[2]), ("Nothing is in force.", "Nothing persists."));
    assert!(
        lines[1].contains("000001.jsonl: OVERDUE") && lines[1].ends_with(" (and 4 more like it)"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(13));
}
