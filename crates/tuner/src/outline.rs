//! A plan as people read it.

use std::fmt::Write;

use crate::change::{Change, Risk};
use crate::plan::Plan;

/// Each change with its reason, its risk, the way back and the figure that should move; then what is not planned.
pub fn outline(plan: &Plan) -> String {
    let mut text = match plan.changes.len() {
        0 => "Nothing to change.\n".to_owned(),
        1 => "1 change:\n".to_owned(),
        count => format!("{count} changes, in this order:\n"),
    };
    for (number, change) in plan.changes.iter().enumerate() {
        let _ =
            writeln!(text, "\n{:>3}  {}: {} → {}", number + 1, change.setting, now(change), change.wanted);
        let _ = writeln!(text, "     why     {} ({})", change.why, change.asked_by);
        let _ = writeln!(text, "     risk    {}", risk(change.risk));
        let _ = writeln!(text, "     undo    {}", change.undo());
        let _ = writeln!(text, "     expect  {}", change.signal);
    }
    for refusal in &plan.refusals {
        let _ =
            writeln!(text, "\nNot planned ({}): {}: {}.", refusal.asked_by, refusal.subject, refusal.reason);
    }
    for advice in &plan.advice {
        let _ = writeln!(text, "\nTo do by hand: {advice}.");
    }
    text
}

/// Each setting with its value now and then, as `diff` shows files.
pub fn diff(plan: &Plan) -> String {
    plan.changes.iter().fold(String::new(), |mut text, change| {
        let _ = write!(text, "@@ {} @@\n-{}\n+{}\n", change.setting, now(change), change.wanted);
        text
    })
}

fn now(change: &Change) -> &str {
    change.setting.written(&change.now).trim()
}

fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "low: takes effect at once, and is undone at once",
        Risk::Moderate => "moderate: moves work or waiting to another place; measure it under load",
        Risk::High => "high: can starve others on this host; use --confirm-within",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Refusal;
    use crate::shapes::{Shape, XEN};
    use crate::strategy::Strategy;

    #[test]
    fn a_plan_says_everything_that_one_asks_before_doing_it() {
        let facts = Shape { cpus: 4, threads: 1, nodes: 1, queues: 1, irqs: XEN }.facts();
        let asked = crate::plan::Asked { strategy: Some(Strategy::RpsRfs), ..Default::default() };
        let plan = crate::plan::plan(&facts, &asked);
        let wanted = "\
1 change:

  1  /sys/class/net/eth0/queues/rx-0/rps_cpus: 0 → e
     why     there are fewer queues than CPUs: other CPUs of the node can take over work from those with interrupts (rps-rfs)
     risk    moderate: moves work or waiting to another place; measure it under load
     undo    write \"0\" to /sys/class/net/eth0/queues/rx-0/rps_cpus
     expect  received_rps on these CPUs grows (/proc/net/softnet_stat); the busiest CPU's softirq time falls (/proc/stat)

Not planned (rps-rfs): eth0: net.core.rps_sock_flow_entries cannot be read, so packets cannot follow their readers.
";
        assert_eq!(outline(&plan), wanted);
        assert_eq!(diff(&plan), "@@ /sys/class/net/eth0/queues/rx-0/rps_cpus @@\n-0\n+e\n");
    }

    #[test]
    fn an_empty_plan_says_so_and_why() {
        let refusal = Refusal { subject: "eth0".into(), asked_by: "spread".into(), reason: "no".into() };
        let plan = Plan { refusals: vec![refusal], advice: vec!["go".into()], ..Plan::default() };
        assert_eq!(
            outline(&plan),
            "Nothing to change.\n\nNot planned (spread): eth0: no.\n\nTo do by hand: go.\n"
        );
    }
}
