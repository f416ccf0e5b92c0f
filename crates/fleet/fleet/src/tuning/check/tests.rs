//! Checks in their short form.

use serde_json::json;

use super::*;

fn finding(rule: &str, severity: &str, verdict: Value) -> Value {
    json!({
        "rule": rule, "severity": severity, "subject": "eth0", "cause": "one CPU handles all packets", "effect": "they are spread",
        "verdict": verdict, "evidence": [],
    })
}

fn change(asked_by: &str, path: &str, wanted: &str) -> Value {
    let setting = json!({"file": {"path": path, "holds": "number"}});
    json!({
        "stage": "sysctl", "setting": setting, "now": "60", "wanted": wanted, "why": "w", "asked_by": asked_by, "risk": "low",
    })
}

fn read(json: &Value) -> Result<ReadCheck, String> {
    HostCheck::read(json, TuningState::default())
}

#[test]
fn each_finding_has_what_would_change_it() {
    let not_here = json!({"not_here": {"reason": "no more CPUs"}});
    let findings = [
        finding("rps-missing", "critical", json!("fixable")),
        finding("swappiness-high", "warning", json!("fixable")),
        finding("cpus-full", "note", not_here),
        finding("kernel-old", "note", json!("fixable")),
    ];
    let changes = [
        change("rps-missing", "/proc/irq/40/smp_affinity", "e"),
        change("rps-missing", "/proc/irq/41/smp_affinity", "e"),
    ];
    let refused = json!({"asked_by": "swappiness-high", "subject": "host", "reason": "it is read-only"});
    let plan = json!({"changes": changes, "refusals": [refused], "advice": []});
    let mut json = json!({"window_s": 30.0, "findings": findings, "gaps": ["rings: no"], "plan": plan});
    let changes = |json: &Value| {
        let read = read(json).expect("a check");
        read.check.findings.into_iter().map(|line| line.change).collect::<Vec<_>>()
    };
    let expected = [
        "/proc/irq/irq#1/smp_affinity → e and 1 more",
        "not planned: it is read-only",
        "nothing on this host helps",
        "by hand, or with a setting of another finding",
    ];
    assert_eq!(changes(&json), expected);
    assert_eq!(read(&json).expect("a check").check.gap.as_deref(), Some("rings: no"));
    // What is unknown is not "nothing".
    json.as_object_mut().expect("an object").remove("plan");
    assert!(changes(&json)[0].starts_with("unknown"));
}

#[test]
fn a_long_check_is_cut_at_its_end_and_says_how_much() {
    let findings: Vec<Value> =
        (0..100).map(|_| finding("rps-missing", "warning", json!("fixable"))).collect();
    let check = read(&json!({"window_s": 1.0, "findings": findings})).expect("a check").check;
    assert_eq!(check.findings.len() + check.cut, 100);
    let len = serde_json::to_string(&check).expect("JSON").len();
    assert!(check.cut > 0 && len <= CHECK_LEN_MAX && len > CHECK_LEN_MAX / 2, "{len}");
}

#[test]
fn a_text_that_is_no_check_is_refused_with_what_is_wrong() {
    let error = |json: Value| read(&json).expect_err("refused");
    assert_eq!(error(json!([])), "expected a number \"window_s\", found nothing");
    assert_eq!(error(json!({"window_s": 1.0})), "expected a list \"findings\", found nothing");
    let dire = finding("x", "dire", json!("fixable"));
    assert_eq!(
        error(json!({"window_s": 1.0, "findings": [dire]})),
        "expected the severity note, warning or critical, found \"dire\""
    );
    let odd = finding("x", "note", json!("perhaps"));
    assert!(error(json!({"window_s": 1.0, "findings": [odd]})).starts_with("expected the verdict"));
}

#[test]
fn the_state_has_plans_that_wait_and_settings_that_have_drifted() {
    let setting = |state: &str| json!({"setting": "x", "wanted": "1", "state": state});
    let plan = json!({
        "journal": "/var/lib/evenkeel/tune/7.journal", "phase": "waiting", "settings": [setting("holds"), setting("drifted")],
    });
    let file = |state: &str| json!({"path": "/etc/x", "state": state});
    let persists = json!({"interrupted": false, "files": [file("as_written"), file("edited")]});
    let json = json!({"plans": [plan], "overdue": [], "unread": ["line 3"], "persists": persists});
    let state = TuningState::read(&json).expect("a state");
    let journal =
        PlanInForce { journal: "7.journal".into(), phase: "waiting".into(), settings: 2, drifted: 1 };
    assert_eq!((&state.plans[..], state.plans_all), (&[journal][..], 1));
    assert_eq!((state.files, state.files_changed, state.doubts, state.unknown), (2, 1, 1, None));
    assert!(TuningState::read(&json!({"plans": []})).is_err());
}

#[test]
fn the_load_of_cpus_is_kept_and_of_many_those_with_the_most_to_do() {
    let load = |softirq: f64, idle: f64| json!({"user": 1.0, "softirq": softirq, "idle": idle});
    let with = |loads: Value| json!({"window_s": 30.0, "findings": [], "gaps": [], "loads": loads});
    let cpus = |loads: Value| read(&with(loads)).map(|read| read.check.cpus);
    let shares = |cpu, softirq, busy| CpuBusy { cpu, softirq, busy };
    let found = cpus(json!({"10": load(80.4, 9.6), "2": load(0.0, 100.0)}));
    assert_eq!(found, Ok(vec![shares(2, 0, 0), shares(10, 80, 90)]));
    assert_eq!(cpus(Value::Null), Ok(Vec::new()), "an older tuner does not say it");
    let many: serde_json::Map<String, Value> = (0..512)
        .map(|cpu| (cpu.to_string(), load(if cpu == 300 { 99.0 } else { 0.0 }, f64::from(cpu % 100))))
        .collect();
    let found = cpus(Value::Object(many)).expect("a check");
    assert_eq!(found.len(), CPUS_MAX);
    assert!(found.contains(&shares(300, 99, 100)) && found.is_sorted_by_key(|one| one.cpu));
    for wrong in [json!(3), json!({"x": load(0.0, 0.0)}), json!({"0": load(101.0, 0.0)}), json!({"0": {}})] {
        assert!(cpus(wrong.clone()).expect_err("wrong").starts_with("expected "), "{wrong}");
    }
}
