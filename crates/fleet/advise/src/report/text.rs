//! The answer as text.

use std::fmt::Write;

use fleet::advise::{
    Advice, AdviceInputs, ChangedAnswer, HostResource, InputEffect, ResourceUse, ShapeAdvice,
    UnknownConsequence, UnknownFigure, to_measure,
};

use stdx::words::counted;

use super::amount::{bytes, percent, short, usd};
use super::{AdviceQuestion, place};

/// Inputs whose effects are shown; the others are in JSON.
const EFFECTS_SHOWN: usize = 12;

/// The whole answer.
pub fn text(advice: &Advice, asked: &AdviceQuestion<'_>) -> String {
    let mut out = workload(asked.inputs, asked.region);
    let Some(first) = advice.best.first() else {
        out += "\nNo shape of the catalogue carries this workload.\n";
        left_out(&mut out, advice);
        return out;
    };
    shapes(&mut out, &advice.best);
    resources(&mut out, first);
    unknown(&mut out, &advice.best);
    curve(&mut out, advice);
    effects(&mut out, advice);
    left_out(&mut out, advice);
    out
}

fn workload(inputs: &AdviceInputs, region: &str) -> String {
    let workload = &inputs.workload;
    let classes = [
        ("get", &workload.get),
        ("set", &workload.set),
        ("delete", &workload.delete),
        ("multiget", &workload.multiget),
    ];
    let classes: Vec<String> = classes
        .iter()
        .filter(|(_, rate)| rate.value > 0.0)
        .map(|(name, rate)| format!("{} {name}", short(rate.value)))
        .collect();
    let zones = match workload.zones {
        1 => "one zone".to_owned(),
        zones => format!("{zones} zones"),
    };
    let spare = match workload.spare_share.value {
        0.0 => String::new(),
        share => format!(", {} of the hosts may be lost", percent(share)),
    };
    let bytes = workload.key_bytes.value + workload.value_bytes.value;
    format!(
        "{}\n  requests per second: {}\n  items: {} of {} bytes, {}B; p99 {} ms; {zones}{spare}; prices of {region}\n",
        workload.name,
        classes.join(", "),
        short(workload.items.value),
        short(bytes),
        short(workload.items.value * bytes),
        short(workload.p99_ms.value),
    )
}

/// The resource that asks for most hosts, and the next one.
fn binding(advice: &ShapeAdvice) -> (Option<&ResourceUse>, Option<&ResourceUse>) {
    let mut known = advice.fit.uses.iter().filter(|used| used.hosts.is_some_and(|hosts| hosts > 0.0));
    (known.next(), known.next())
}

fn shapes(out: &mut String, best: &[ShapeAdvice]) {
    let row = |advice: &ShapeAdvice| {
        let (binds, next) = binding(advice);
        let next = next.map_or_else(String::new, |next| {
            let share = next.hosts.unwrap_or(0.0) / advice.fit.hosts_exact;
            format!("{} at {}", next.resource.as_str(), percent(share))
        });
        [
            advice.shape.name.clone(),
            advice.fit.hosts.to_string(),
            format!("{} to {}", advice.hosts_range.0, advice.hosts_range.1),
            usd(advice.usd_per_hour),
            usd(advice.usd_per_month()),
            place(advice.fit.place).to_owned(),
            binds.map_or("nothing", |used| used.resource.as_str()).to_owned(),
            next,
        ]
    };
    let head =
        ["shape", "hosts", "range", "USD/h", "USD/month", "items in", "binds", "next"].map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(best.iter().map(row)).collect();
    out.push('\n');
    table(out, &rows, &[1, 3, 4]);
    let mut days: Vec<&str> = best.iter().map(|advice| advice.price.date.as_str()).collect();
    days.sort_unstable();
    days.dedup();
    let _ = writeln!(out, "  list prices of {}, without discounts", days.join(" and "));
}

/// Rows in columns; the numbers of some are at their right.
fn table<const N: usize>(out: &mut String, rows: &[[String; N]], right: &[usize]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let room = " ".repeat(widths[column] - cell.chars().count());
            line += match right.contains(&column) {
                true => format!("  {room}{cell}"),
                false => format!("  {cell}{room}"),
            }
            .as_str();
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn resources(out: &mut String, first: &ShapeAdvice) {
    let _ = writeln!(
        out,
        "\nWhat {} asks for, of {}",
        first.shape.name,
        counted(first.fit.hosts as usize, "host")
    );
    let row = |used: &ResourceUse| {
        let need = match used.resource {
            HostResource::Cpu | HostResource::QueueCpu => format!("{} s", short(used.need / 1e6)),
            HostResource::Memory | HostResource::FlashIndex | HostResource::DiskSpace => bytes(used.need),
            HostResource::Bandwidth | HostResource::SpikeBandwidth | HostResource::DiskBandwidth => {
                bytes(used.need) + "/s"
            }
            _ => short(used.need),
        };
        let hosts = match used.hosts {
            None => "not known".to_owned(),
            Some(_) if used.resource == HostResource::Connections => "fit".to_owned(),
            Some(hosts) => short(hosts),
        };
        [used.resource.as_str().to_owned(), need, hosts]
    };
    let head = ["resource", "need", "hosts"].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(head).chain(first.fit.uses.iter().map(row)).collect();
    table(out, &rows, &[1, 2]);
    let ceiling = percent(first.fit.cpu_ceiling);
    let _ = writeln!(out, "  {ceiling} of the CPUs' time may be used at this latency, headroom not counted");
    if first.fit.hosts == 1 {
        out.push_str("  With one host nothing is left when it fails: `survive_zone` asks for hosts that carry everything then\n");
    }
}

/// What is not known of several shapes is one entry.
fn unknown(out: &mut String, best: &[ShapeAdvice]) {
    let mut entries: Vec<(&UnknownFigure, String)> = Vec::new();
    for advice in best {
        for unknown in &advice.fit.unknown {
            let shape = match unknown.consequence {
                UnknownConsequence::Needs(least) if unknown.what.ends_with("bandwidth") => {
                    format!("{}/s ({})", bytes(least), advice.shape.name)
                }
                UnknownConsequence::Needs(least) => format!("{} ({})", short(least), advice.shape.name),
                UnknownConsequence::Taken(_) | UnknownConsequence::DoneWithout => advice.shape.name.clone(),
            };
            match entries.iter_mut().find(|(other, _)| other.what == unknown.what) {
                Some((_, shapes)) => shapes.extend([", ", shape.as_str()]),
                None => entries.push((unknown, shape)),
            }
        }
    }
    if !entries.is_empty() {
        out.push_str("\nNot known\n");
    }
    for (unknown, shapes) in entries {
        let _ = match unknown.consequence {
            UnknownConsequence::Needs(_) => {
                writeln!(out, "  {}: the answer holds if each host has {shapes}", unknown.what)
            }
            UnknownConsequence::Taken(value) => {
                writeln!(out, "  {} of {shapes}: {} is taken in its place", unknown.what, short(value))
            }
            UnknownConsequence::DoneWithout => {
                writeln!(out, "  {} of {shapes}: the answer does without them", unknown.what)
            }
        };
        let _ = writeln!(out, "    measure it by {}", unknown.measure);
    }
}

fn curve(out: &mut String, advice: &Advice) {
    if advice.curve.is_empty() {
        return;
    }
    out.push_str("\nWhat more items buy\n");
    let row = |point: &fleet::advise::CurveCost| {
        let backend = point.backend_usd_per_hour;
        [
            format!("{}B", short(point.kept.bytes)),
            percent(point.kept.hit_ratio),
            format!("{} {}", point.hosts, point.shape),
            usd(point.usd_per_hour),
            backend.map_or_else(|| "not known".to_owned(), usd),
            backend.map_or_else(|| "not known".to_owned(), |backend| usd(backend + point.usd_per_hour)),
        ]
    };
    let head = ["items", "hits", "hosts", "USD/h", "misses USD/h", "both"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(advice.curve.iter().map(row)).collect();
    table(out, &rows, &[0, 1, 3, 4, 5]);
}

fn effects(out: &mut String, advice: &Advice) {
    let _ = writeln!(out, "\nWhat a fifth less or more of one figure changes");
    let row = |effect: &InputEffect| {
        let changed = |answer: &Option<ChangedAnswer>| match answer {
            Some(answer) => format!("{} {}", answer.hosts, answer.shape),
            None => "nothing fits".to_owned(),
        };
        [
            effect.name.to_owned(),
            short(effect.value),
            effect.basis.as_str().to_owned(),
            changed(&effect.less),
            changed(&effect.more),
            if effect.changes_family { "another family" } else { "" }.to_owned(),
        ]
    };
    let head = ["figure", "is", "source", "a fifth less", "a fifth more", ""].map(str::to_owned);
    // Some move the count within one host, or only the range.
    let changes = |effect: &&InputEffect| effect.changes_family || effect.cost_change > 0.0;
    let shown = advice.effects.iter().filter(changes).take(EFFECTS_SHOWN).map(row);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(shown).collect();
    table(out, &rows, &[1]);
    if let Some(effect) = to_measure(&advice.effects) {
        let factor = short(effect.range_change.exp());
        let _ = writeln!(
            out,
            "\nTo be surer, know {} better. It is assumed; within its range the number of hosts changes by a factor of up to {factor}.\n  \
             {}",
            effect.name, effect.measure
        );
    }
}

fn left_out(out: &mut String, advice: &Advice) {
    if advice.left_out.is_empty() {
        return;
    }
    out.push_str("\nLeft out\n");
    for left in &advice.left_out {
        let _ = writeln!(out, "  {} such as {}: {}", counted(left.count, "shape"), left.example, left.why);
    }
}
