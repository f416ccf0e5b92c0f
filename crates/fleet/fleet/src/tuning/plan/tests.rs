//! Plans in words, and what makes two of them equal.

use serde_json::json;

use super::*;

fn change(setting: Value, now: &str, wanted: &str) -> Value {
    json!({
        "stage": "affinity", "setting": setting, "now": now, "wanted": wanted, "why": "there are queues", "asked_by": "spread",
        "risk": "moderate", "signal": [],
    })
}

fn file(path: &str) -> Value {
    json!({"file": {"path": path, "holds": "mask"}})
}

fn read(nic: (&str, &str, u32), changes: &[Value]) -> ReadPlan {
    let (name, driver, queues) = nic;
    let nic = json!({"name": name, "driver": driver, "queues": queues});
    let host = json!({"kernel": "6.1.0", "cpus": "0-7", "nodes": 1, "memory_bytes": 1, "nics": [nic]});
    HostPlan::read(&json!({"changes": changes, "refusals": [], "advice": [], "host": host})).expect("a plan")
}

/// Whether two lists of changes have the same form on hosts with this interface each.
#[track_caller]
fn check(one: (&str, &[Value]), other: (&str, &[Value]), is_equal: bool) {
    let (one, other) = (read((one.0, "ena", 8), one.1), read((other.0, "ena", 8), other.1));
    assert_eq!(one.form == other.form, is_equal, "\n{}\n{}", one.form, other.form);
    assert!(one.own != other.own || one == other, "each host's own digest says what it does there");
}

#[test]
fn names_of_a_host_do_not_make_its_plan_another_one() {
    let irq = |number: u32, now: &str, wanted: &str| {
        change(file(&format!("/proc/irq/{number}/smp_affinity")), now, wanted)
    };
    check(
        ("eth0", &[irq(40, "ff", "1"), irq(41, "ff", "2")]),
        ("eth0", &[irq(71, "1", "1"), irq(80, "3", "2")]),
        true,
    );
    check(
        ("eth0", &[irq(40, "ff", "1"), irq(41, "ff", "2")]),
        ("eth0", &[irq(40, "ff", "1"), irq(41, "ff", "4")]),
        false,
    );
    let rps =
        |nic: &str, now: &str| change(file(&format!("/sys/class/net/{nic}/queues/rx-0/rps_cpus")), now, "e");
    check(("eth0", &[rps("eth0", "0")]), ("ens5", &[rps("ens5", "0")]), true);
    check(("eth0", &[rps("eth0", "0")]), ("eth0", &[rps("eth0", "f")]), false);
    let handler =
        |nic: &str, handler: &str| change(json!({"interrupt": {"nic": nic, "handler": handler}}), "f", "1");
    check(("eth0", &[handler("eth0", "eth0-Tx-Rx-0")]), ("ens5", &[handler("ens5", "ens5-Tx-Rx-0")]), true);
    check(
        ("eth0", &[handler("eth0", "virtio0-input.0")]),
        ("eth0", &[handler("eth0", "virtio1-input.0")]),
        true,
    );
    check(
        ("eth0", &[handler("eth0", "virtio0-input.0")]),
        ("eth0", &[handler("eth0", "virtio0-output.0")]),
        false,
    );
    let thread = |tid: u32, started: u32, wanted: &str| {
        let at = |text: &str| format!("{text} started={started}");
        change(json!({"thread": {"tid": tid}}), &at("policy=0 priority=0"), &at(wanted))
    };
    check(
        ("eth0", &[thread(8, 1, "policy=1 priority=1")]),
        ("eth0", &[thread(9, 2, "policy=1 priority=1")]),
        true,
    );
    check(
        ("eth0", &[thread(8, 1, "policy=1 priority=1")]),
        ("eth0", &[thread(8, 1, "policy=1 priority=2")]),
        false,
    );
    let listener = |pid: u32, address: &str| {
        let socket = json!({"pid": pid, "started": pid, "inode": pid, "address": address});
        change(json!({"listener": {"socket": socket, "limit": "backlog"}}), "1024", "4096")
    };
    check(("eth0", &[listener(7, "[::]:11211")]), ("eth0", &[listener(9, "[::]:11211")]), true);
    check(("eth0", &[listener(7, "[::]:11211")]), ("eth0", &[listener(7, "[::]:11212")]), false);
    let left = |pid: u32, now: &str, wanted: &str| change(json!({"irqbalance": {"pid": pid}}), now, wanted);
    check(("eth0", &[left(7, "", "40 41")]), ("eth0", &[left(9, "3", "70 71")]), true);
    check(("eth0", &[left(7, "", "40 41")]), ("eth0", &[left(7, "", "40")]), false);
    let group = |path: &str| change(file(&format!("/sys/fs/cgroup/{path}/cpu.weight")), "100", "1000");
    check(("eth0", &[group("pod6f1a2b3c-4d5e.slice")]), ("eth0", &[group("pod8f1a2b3c-9d5e.slice")]), true);
    check(("eth0", &[group("system.slice/a.service")]), ("eth0", &[group("system.slice/b.service")]), false);
    let disk =
        |name: &str, now: &str| change(file(&format!("/sys/block/{name}/queue/scheduler")), now, "none");
    check(("eth0", &[disk("nvme0n1", "mq-deadline")]), ("eth0", &[disk("nvme1n1", "mq-deadline")]), true);
    check(("eth0", &[disk("nvme0n1", "mq-deadline")]), ("eth0", &[disk("nvme0n1", "bfq")]), false);
}

#[test]
fn what_a_tuner_of_another_version_sets_is_compared_word_by_word() {
    let novel = |number: u32| change(json!({"moon": {"phase": number}}), "0", "1");
    check(("eth0", &[novel(1)]), ("eth0", &[novel(1)]), true);
    check(("eth0", &[novel(1)]), ("eth0", &[novel(2)]), false);
}

#[test]
fn interfaces_with_other_drivers_or_queues_have_other_plans_only_where_a_plan_is_about_them() {
    let rps = [change(file("/sys/class/net/eth0/queues/rx-0/rps_cpus"), "0", "e")];
    let sysctl = [change(file("/proc/sys/net/core/somaxconn"), "128", "4096")];
    let form = |driver, queues, changes: &[Value]| read(("eth0", driver, queues), changes).form;
    assert_ne!(form("ena", 8, &rps), form("virtio_net", 8, &rps));
    assert_ne!(form("ena", 8, &rps), form("ena", 4, &rps));
    assert_eq!(form("ena", 8, &sysctl), form("virtio_net", 4, &sysctl));
}

#[test]
fn a_host_whose_facts_change_has_the_same_form_and_another_digest_of_its_own() {
    let sysctl = [change(file("/proc/sys/net/core/somaxconn"), "128", "4096")];
    let (before, after) = (read(("eth0", "ena", 8), &sysctl), read(("eth0", "ena", 7), &sysctl));
    assert_eq!(before.form, after.form);
    assert_ne!(before.own, after.own);
}

#[test]
fn alike_changes_are_one_step_and_a_long_plan_is_cut_and_counted() {
    let path = |number: u32| file(&format!("/sys/class/net/eth0/queues/tx-{number}/xps_cpus"));
    let changes: Vec<Value> = (0..2000).map(|number| change(path(number), "0", "1")).collect();
    let few = read(("eth0", "ena", 8), &changes[..3]);
    assert_eq!((few.plan.steps.len(), few.plan.steps[0].lines.len(), few.plan.cut), (1, 3, 0));
    let long = read(("eth0", "ena", 8), &changes);
    let kept: usize = long.plan.steps.iter().map(|step| step.lines.len()).sum();
    assert_eq!((kept + long.plan.cut, long.plan.changes), (2000, 2000));
    let len = serde_json::to_string(&long.plan).expect("JSON").len();
    assert!(long.plan.cut > 0 && len <= PLAN_LEN_MAX && len > PLAN_LEN_MAX / 2, "{len}");
    let mut other = changes.clone();
    other[1999]["wanted"] = json!("2");
    let other = read(("eth0", "ena", 8), &other);
    assert_eq!(other.plan, long.plan);
    assert_ne!(other.form, long.form, "what is cut is compared as well");
}

#[test]
fn a_text_that_is_no_plan_is_refused_with_what_is_wrong() {
    let error = |json: Value| HostPlan::read(&json).expect_err("refused");
    assert_eq!(error(json!({})), "expected a list \"changes\", found nothing");
    assert_eq!(error(json!({"changes": [7]})), "expected a text \"asked_by\", found nothing");
    let mut odd = change(file("/x"), "0", "1");
    odd["setting"] = json!("x");
    assert_eq!(error(json!({"changes": [odd]})), "expected an object \"setting\" with one field");
    let many = vec![json!(0); CHANGES_MAX + 1];
    assert_eq!(error(json!({"changes": many})), "expected 16384 changes at most, found 16385");
}

/// Plans that the tuner has made for hosts of its own tests.
fn real(ask: &str, host: &str) -> ReadPlan {
    let all: Value = serde_json::from_str(include_str!("../../../testdata/plans.json")).expect("JSON");
    HostPlan::read(&all[ask][host]).unwrap_or_else(|error| panic!("{ask} {host}: {error}"))
}

#[test]
fn real_plans_of_equal_hosts_are_equal_whatever_their_names() {
    for (one, other) in [("ena", "ena-renamed"), ("virtio", "virtio-renamed")] {
        for ask in ["spread", "rps-rfs", "memcached"] {
            let (one, other) = (real(ask, one), real(ask, other));
            assert!(one.plan.changes > 0, "{ask} changes something");
            assert_eq!(one.form, other.form, "{ask}");
            assert_ne!(one.own, other.own, "{ask}: the names are other ones");
        }
    }
}

#[test]
fn where_interrupts_were_handled_matters_only_to_a_real_plan_that_goes_by_it() {
    assert_eq!(
        real("spread", "ena").form,
        real("spread", "ena-moved").form,
        "they are moved to the same CPUs"
    );
    assert_ne!(real("rps-rfs", "ena").form, real("rps-rfs", "ena-moved").form, "packets go to other CPUs");
}

#[test]
fn real_plans_of_different_hosts_are_different_where_they_are_about_the_difference() {
    for other in ["ena-cpu-off", "ena-8-queues", "virtio"] {
        for ask in ["spread", "rps-rfs"] {
            assert_ne!(real(ask, "ena").form, real(ask, other).form, "{ask} {other}");
        }
        let (one, other) = (real("memcached", "ena"), real("memcached", other));
        assert_eq!(one.form, other.form, "sysctls are the same everywhere");
        assert_ne!(one.own, other.own, "and the host is another one");
    }
}
