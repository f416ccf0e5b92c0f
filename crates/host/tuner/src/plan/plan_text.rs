//! Text of a plan: changes with reason, risk, way back and expected effect.

use std::fmt::Write;

use crate::plan::Plan;
use crate::plan::change::{Change, Risk};
use crate::text::wrap;

/// Each change, or several that are alike, with the reason, the risk, the way back and the figure that should move;
/// then the requests that are not planned.
pub fn text(plan: &Plan) -> String {
    let mut text = match plan.changes.len() {
        0 => "Nothing to change.\n".to_owned(),
        1 => "1 change:\n".to_owned(),
        count => format!("{count} changes, in this order:\n"),
    };
    let mut number = 0;
    for alike in plan.changes.chunk_by(are_alike) {
        text.push('\n');
        for change in alike {
            number += 1;
            let (setting, wanted) = (&change.setting, change.shown(&change.wanted));
            let _ = writeln!(text, "{number:>3}  {setting}: {} → {wanted}", change.shown(&change.now));
        }
        let first = &alike[0];
        let _ = writeln!(text, "     why     {} ({})", first.why, first.asked_by);
        let _ = writeln!(text, "     risk    {}", risk(first.risk));
        let undo = if alike.len() == 1 { first.undo() } else { "each gets its old value again".to_owned() };
        let _ = writeln!(text, "     undo    {undo}");
        let _ = writeln!(text, "     expect  {}", first.signal);
    }
    if plan.then.is_some() {
        text.push_str(
            "\nThen the host is looked at again, because its queues and interrupts have other numbers, and the rest is \
             planned and done with them; it is undone together with this.\n",
        );
    }
    if let Some(left) = &plan.service_cpus {
        let _ = writeln!(text, "\n{left}.");
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

/// The text of a plan for a terminal: lines that are too long are continued below their beginning.
pub fn wrapped(text: &str, columns: usize) -> String {
    let line = |line: &str| {
        // `     why     …`, `  1  …`, and lines without indentation.
        let label = match line {
            _ if line.starts_with("     ") => LABEL_LEN,
            _ if line.starts_with(' ') => NUMBER_LEN,
            _ => 0,
        };
        let (label, text) = line.split_at_checked(label).unwrap_or(("", line));
        wrap::hanging(label, text, columns)
    };
    text.lines().map(line).collect()
}

/// Lengths of the prefixes of a change, and of its details.
const NUMBER_LEN: usize = 5;
const LABEL_LEN: usize = 13;

/// Each setting with its value now and then, as `diff` shows files.
pub fn diff(plan: &Plan) -> String {
    plan.changes.iter().fold(String::new(), |mut text, change| {
        let (now, wanted) = (change.shown(&change.now), change.shown(&change.wanted));
        let _ = write!(text, "@@ {} @@\n-{now}\n+{wanted}\n", change.setting);
        text
    })
}

/// Whether both have the same details.
fn are_alike(one: &Change, other: &Change) -> bool {
    let said =
        |change: &Change| (change.why.clone(), change.asked_by.clone(), change.risk, change.signal.clone());
    said(one) == said(other)
}

fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "low: takes effect at once, and is undone at once",
        Risk::Moderate => "moderate: moves work or waiting to another place; measure it under load",
        Risk::Blink => {
            "moderate: the driver makes its queues anew, so packets are lost for a moment and the link may blink"
        }
        Risk::High => "high: can starve others on this host; use --confirm-within",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::shapes::{ENA, Shape, XEN};
    use crate::plan::change::PlanRefusal;
    use crate::plan::strategy::Strategy;

    #[test]
    fn a_plan_says_everything_that_one_asks_before_doing_it() {
        let facts = Shape { cpus: 4, threads: 1, nodes: 1, queues: 1, irqs: XEN }.facts();
        let asked = crate::plan::PlanRequest { strategy: Some(Strategy::RpsRfs), ..Default::default() };
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
        assert_eq!(text(&plan), wanted);
        assert_eq!(diff(&plan), "@@ /sys/class/net/eth0/queues/rx-0/rps_cpus @@\n-0\n+e\n");
    }

    #[test]
    fn long_lines_go_on_below_where_they_began() {
        let text = "1 change:\n\n  1  /sys/x: 0 → e\n     why     there are fewer queues than CPUs (x)\n\nNot planned: a b\n";
        let wanted = "1 change:\n\n  1  /sys/x: 0 → e\n     why     there are fewer queues\n             than CPUs (x)\n\nNot planned: a b\n";
        assert_eq!(wrapped(text, 36), wanted);
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn what_is_alike_is_said_once() {
        let facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 4, irqs: ENA }.facts();
        let asked = crate::plan::PlanRequest { strategy: Some(Strategy::Spread), ..Default::default() };
        let text = text(&crate::plan::plan(&facts, &asked));
        assert!(text.contains("\n  4  /proc/irq/43/smp_affinity: ff → 8\n     why"), "{text}");
        assert_eq!(text.matches("each gets its old value again").count(), 1, "{text}");
    }

    #[test]
    fn an_empty_plan_says_so_and_why() {
        let refusal = PlanRefusal { subject: "eth0".into(), asked_by: "spread".into(), reason: "no".into() };
        let plan = Plan { refusals: vec![refusal], advice: vec!["go".into()], ..Plan::default() };
        assert_eq!(
            text(&plan),
            "Nothing to change.\n\nNot planned (spread): eth0: no.\n\nTo do by hand: go.\n"
        );
    }
}
