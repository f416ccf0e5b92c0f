//! Labels of plans, with the real program: `confirm --label` and `rollback --label` are about one plan, whatever others are in force.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::host::{Host, STEPS, fails, made, succeeds};

/// A plan for one setting of the host.
fn plan(host: &Host, number: usize, now: &str, wanted: &str, label: &str) -> Command {
    let path = STEPS[number].0;
    let holds = if path.ends_with("cpus") { "mask" } else { "number" };
    let change = json!({
        "stage": "steering", "setting": {"file": {"path": format!("/{path}"), "holds": holds}},
        "now": now, "wanted": wanted, "why": "", "asked_by": "", "risk": "low", "signal": "",
    });
    let file = host.0.join(format!("plan-{label}"));
    fs::write(&file, json!({ "made": made(), "changes": [change] }).to_string()).unwrap();
    let mut apply = host.tune("apply");
    apply.arg("--plan").arg(file).args(["--label", label]);
    apply
}

fn labelled(host: &Host, verb: &str, label: &str) -> Command {
    let mut command = host.tune(verb);
    command.args(["--label", label]);
    command
}

fn value(host: &Host, number: usize) -> String {
    fs::read_to_string(host.0.join(STEPS[number].0)).unwrap().trim().to_owned()
}

#[test]
fn a_plan_is_confirmed_and_undone_by_its_label_from_below_a_later_one() {
    let host = Host::new("labelled");
    succeeds(plan(&host, 0, "128\n", "4096", "change-1-1").args(["--confirm-within", "1h"]));
    let said = fails(&mut labelled(&host, "confirm", "change-1-2"));
    assert!(said.contains("confirm the plan change-1-2: it is not waiting for it"), "{said}");
    succeeds(&mut labelled(&host, "confirm", "change-1-1"));
    let again = fails(&mut labelled(&host, "confirm", "change-1-1"));
    assert!(again.contains("it is not waiting"), "{again}");
    succeeds(&mut plan(&host, 2, "0\n", "1024", "by-hand"));

    let status: Value = serde_json::from_str(&succeeds(host.tune("status").arg("--json"))).unwrap();
    let labels: Vec<&Value> = status["plans"].as_array().unwrap().iter().map(|plan| &plan["label"]).collect();
    assert_eq!(labels, ["by-hand", "change-1-1"]);
    assert!(succeeds(&mut host.tune("status")).contains("000001.jsonl (change-1-1): in force"));

    let said = fails(&mut labelled(&host, "rollback", "change-1"));
    assert!(said.contains("undo the plan change-1: it is not in force"), "{said}");
    succeeds(&mut labelled(&host, "rollback", "change-1-1"));
    assert_eq!((value(&host, 0), value(&host, 2)), ("128".to_owned(), "1024".to_owned()));
    assert!(fails(&mut labelled(&host, "rollback", "change-1-1")).contains("it is not in force"));
    succeeds(&mut host.tune("rollback"));
    host.holds(|step| step.1);
}

#[test]
fn a_plan_below_a_later_one_for_the_same_setting_stays() {
    let host = Host::new("labelled-below");
    succeeds(&mut plan(&host, 0, "128\n", "4096", "first"));
    succeeds(&mut plan(&host, 0, "4096", "8192", "second"));
    let said = fails(&mut labelled(&host, "rollback", "first"));
    let why = format!("undo the plan first: a later one concerns /{}, too (", STEPS[0].0);
    assert!(said.contains(&why) && said.contains("`evenkeel tune rollback` undoes that one first"), "{said}");
    assert_eq!(value(&host, 0), "8192");
    succeeds(&mut labelled(&host, "rollback", "second"));
    succeeds(&mut labelled(&host, "rollback", "first"));
    host.holds(|step| step.1);
    for wrong in ["", "a b", "a/b"] {
        assert!(
            fails(&mut labelled(&host, "rollback", wrong)).contains("expected 1 to 64 letters"),
            "{wrong:?}"
        );
    }
}
