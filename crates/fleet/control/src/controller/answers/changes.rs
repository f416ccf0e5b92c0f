//! Documents about changes of hosts: one that would be made, one that is on its way or over, and the last ones.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use admin::api::ApiReply;
use fleet::HostId;
use fleet::figures::shadow::{GateState, ShadowGate};
use fleet::waves::{
    ChangePlan, ChangeState, FleetChange, HostsAlike, KindJudged, LeftOut, LookReport, OnHalt, WaitsFor,
};
use serde_json::{Value, json};
use stdx::words::counted;

use super::replies::{document, moment_words};
use crate::controller::changes::draft::{DraftedChange, kind_word};
use crate::decisions::changes::{ChangeEnd, ChangeList, ChangeRow};

/// Hosts that are named in a line; the others are counted.
const HOSTS_SHOWN: usize = 3;
/// Servers that people upgrade: a day's work for one person.
const BY_HAND_SHOWN: usize = 50;
/// Kinds and reasons that are shown; JSON has all.
const ROWS_SHOWN: usize = 50;

/// A change that would be made. `needed` are kinds of hosts that cannot be judged and that nobody has accepted, and why: it is not begun with
/// them.
pub(crate) fn shown_document(
    drafted: &DraftedChange,
    plan: &ChangePlan,
    needed: &[(HostsAlike, String)],
) -> ApiReply {
    let refused = needed.first().map(|(_, why)| why);
    let outline = plan.outline();
    let left = by_reason(drafted.left.iter().map(|(host, why)| (host, why.clone())));
    let settings = &plan.settings;
    let mut text = String::new();
    let written = (|| -> fmt::Result {
        writeln!(text, "{} on {}, nothing is changed yet", plan.what, counted(plan.hosts.len(), "host"))?;
        writeln!(text, "plan {}", drafted.digest)?;
        for kind in outline.kinds.iter().take(ROWS_SHOWN) {
            let judged = match kind.judged {
                KindJudged::ByPairs => format!("judged by {}", counted(kind.pairs, "pair")),
                KindJudged::InTurns => {
                    format!("judged by {} in turns: on, off, off, on", counted(kind.pairs, "pair"))
                }
                KindJudged::Unjudged | KindJudged::Refused
                    if needed.iter().any(|(needed, _)| *needed == kind.kind) =>
                {
                    format!("cannot be judged (--accept {})", kind_word(&kind.kind))
                }
                KindJudged::Unjudged | KindJudged::Refused => "not judged, as accepted".to_owned(),
            };
            writeln!(text, "{}: {}, {judged}", kind.kind, counted(kind.hosts, "host"))?;
        }
        write_more(&mut text, outline.kinds.len())?;
        for wave in &outline.waves {
            let hosts = format!("{} of {}", wave.hosts, counted(plan.hosts.len(), "host"));
            writeln!(text, "  {:<28} {hosts:>20}  {:>9}", wave.wave, duration(wave.ms))?;
        }
        writeln!(
            text,
            "it takes {} at least, and the time in which hosts apply it",
            duration(outline.least_ms)
        )?;
        let margins: Vec<String> =
            settings.margins.iter().map(|(figure, margin)| format!("{} {margin} %", figure.word())).collect();
        writeln!(text, "it halts when one of these is worse by more: {}", margins.join(", "))?;
        let after = match settings.on_halt {
            OnHalt::Undo => "then all hosts go back",
            OnHalt::Keep => "then hosts keep what they have, until a person resumes or undoes it",
        };
        writeln!(text, "{after}")?;
        if let Some(objective) = &drafted.objective {
            writeln!(text, "it halts when this is missed three times in a row: {objective}")?;
        }
        if let Some((gate, state)) = &drafted.gate {
            writeln!(text, "it begins when {gate} is fulfilled, and halts when that is missed")?;
            writeln!(text, "  {}: {}", state.word(), state.text())?;
        }
        let advice = by_reason(drafted.advice.iter().map(|(host, words)| (host, words.clone())));
        write_rows(&mut text, "to do by hand", &advice)?;
        write_left(&mut text, &left)?;
        write_by_hand(&mut text, drafted)?;
        refused.map_or(Ok(()), |why| writeln!(text, "it cannot be carried out like this: {why}"))
    })();
    written.expect("writing to memory does not fail");
    let digest = refused.is_none().then_some(&drafted.digest);
    let json = json!({
        "plan": digest, "digest": drafted.digest, "refused": refused, "what": plan.what, "hosts": plan.hosts.len(), "outline": outline,
        "settings": settings, "promised": plan.promised, "objective": drafted.objective,
        "gate": drafted.gate.as_ref().map(|(gate, state)| gate_json(gate, Some(state))),
        "by_hand": drafted.by_hand.iter().map(|(member, host)| json!({"member": member, "host": host})).collect::<Vec<_>>(),
        "left_out": drafted.left.iter().map(|(host, why)| json!({"host": host, "why": why})).collect::<Vec<_>>(),
    });
    document(text, json)
}

/// How people bring the version to servers that have nothing to take over with: one after the other, by the drain's own budget.
pub(crate) fn write_by_hand(text: &mut String, drafted: &DraftedChange) -> fmt::Result {
    if drafted.by_hand.is_empty() {
        return Ok(());
    }
    let count = counted(drafted.by_hand.len(), "server");
    writeln!(
        text,
        "by hand, since nothing takes over from them: {count}, one after the other, of which a spare needs no drain"
    )?;
    for (member, host) in drafted.by_hand.iter().take(BY_HAND_SHOWN) {
        writeln!(text, "  evenkeel control drain {member} --apply --why \"{}\"", drafted.draft.what)?;
        writeln!(
            text,
            "    when `control status` shows no drain: on {host}, replace the program of {member} and start it"
        )?;
    }
    match drafted.by_hand.len().saturating_sub(BY_HAND_SHOWN) {
        0 => Ok(()),
        more => writeln!(text, "  and {more} more in the same way, which --json names"),
    }
}

/// A change as it is known here.
pub(crate) struct ChangeSeen<'c> {
    pub(crate) row: &'c ChangeRow,
    pub(crate) change: &'c FleetChange,
    pub(crate) objective: Option<&'c str>,
    /// This controller asks for objectives.
    pub(crate) asks_objectives: bool,
    /// What it says now; none of a change that is over.
    pub(crate) gate: Option<(&'c ShadowGate, Option<GateState>)>,
    /// This controller hears too few of its hosts to decide.
    pub(crate) is_deaf: bool,
}

/// How many hosts of a change are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeCounts {
    /// They have it, as they say.
    pub(crate) changed: usize,
    /// They were told, and have not said that they have it.
    pub(crate) told: usize,
    /// They were told to be as before.
    pub(crate) back: usize,
    /// They do not get it.
    pub(crate) left_out: usize,
    /// All others.
    pub(crate) untold: usize,
}

impl ChangeCounts {
    /// All words, in the order of [`ChangeCounts::rows`].
    pub(crate) const WORDS: [&'static str; 5] = ["changed", "told", "told_back", "left_out", "untold"];

    pub(crate) fn of(change: &FleetChange) -> ChangeCounts {
        let changed = change.changed().count();
        let on = change.told().filter(|(.., attempt)| attempt.is_some()).count();
        let back = change.told().count() - on;
        let told: std::collections::BTreeSet<&HostId> = change.told().map(|(host, ..)| host).collect();
        let left_out = change.left_out().filter(|(host, _)| !told.contains(host)).count();
        let untold = change.plan().hosts.len().saturating_sub(on + back + left_out);
        ChangeCounts { changed, told: on.saturating_sub(changed), back, left_out, untold }
    }

    /// Each with its word.
    pub(crate) fn rows(self) -> [(&'static str, usize); 5] {
        let ChangeCounts { changed, told, back, left_out, untold } = self;
        let counts = [changed, told, back, left_out, untold];
        std::array::from_fn(|at| (ChangeCounts::WORDS[at], counts[at]))
    }
}

/// Where a change is.
pub(crate) fn change_document(seen: &ChangeSeen<'_>) -> ApiReply {
    let (row, change) = (seen.row, seen.change);
    let (state, counts) = (change.state(), ChangeCounts::of(change));
    let looks = change.looks();
    let left: Vec<(&HostId, LeftOut)> = match row.end {
        // What hosts are like now was not heard for this change.
        Some(_) => Vec::new(),
        None => change.left_out().collect(),
    };
    let reasons = by_reason(left.iter().map(|(host, why)| (*host, why.to_string())));
    let mut text = String::new();
    let written = (|| -> fmt::Result {
        writeln!(text, "change {}: {} on {}", row.number, row.what, counted(row.hosts, "host"))?;
        writeln!(text, "begun {} by {}: {}", at_words(row.unix_s), row.who, row.why)?;
        write_state(&mut text, &state)?;
        if let Some(end) = &row.end {
            writeln!(text, "ended {}", at_words(end.unix_s))?;
        }
        if seen.is_deaf {
            writeln!(
                text,
                "this controller decides nothing of it but the way back: it hears fewer than half of the hosts"
            )?;
        }
        if row.end.is_none() {
            writeln!(
                text,
                "hosts: {} changed, {} told, {} told to be as before, {} left out, {} not told yet",
                counts.changed, counts.told, counts.back, counts.left_out, counts.untold
            )?;
        }
        for (kind, looks) in &looks {
            for look in *looks {
                writeln!(text, "{kind}, {}: {look}: {}", wave_words(look.wave), verdict_words(look))?;
            }
        }
        if let Some(objective) = seen.objective {
            let unasked = if seen.asks_objectives {
                ""
            } else {
                " (not asked by this controller, which has no --prometheus)"
            };
            writeln!(text, "objective: {objective}{unasked}")?;
        }
        match &seen.gate {
            Some((gate, Some(state))) => writeln!(text, "gate: {gate}, {}: {}", state.word(), state.text())?,
            Some((gate, None)) => writeln!(text, "gate: {gate}")?,
            None => {}
        }
        write_left(&mut text, &reasons)
    })();
    written.expect("writing to memory does not fail");
    let looks = |(kind, looks): (&&HostsAlike, &&[LookReport])| json!({"kind": kind, "looks": looks});
    let (wave, waits_for, why) = match &state {
        ChangeState::Going { wave, waits_for } => {
            (Some(wave.to_string()), Some(waits_words(waits_for)), None)
        }
        ChangeState::Halted(cause) | ChangeState::Undone(cause) => (None, None, Some(cause.to_string())),
        ChangeState::Undoing { cause, .. } => (None, None, Some(cause.to_string())),
        ChangeState::Done => (None, None, None),
    };
    let json = json!({
        "number": row.number, "what": row.what, "who": row.who, "why": row.why, "unix_s": row.unix_s,
        "at": moment_words(row.unix_s), "end": row.end.as_ref().map(end_json),
        "state": state.word(), "wave": wave, "waits_for": waits_for, "state_why": why, "version": change.version(), "is_deaf": seen.is_deaf,
        "hosts": row.hosts, "counts": row.end.is_none().then(|| counts_json(counts)),
        "looks": change.looks().iter().map(looks).collect::<Vec<_>>(), "objective": seen.objective,
        "objective_is_asked_here": seen.objective.map(|_| seen.asks_objectives),
        "gate": seen.gate.as_ref().map(|(gate, state)| gate_json(gate, state.as_ref())),
        "left_out": left.iter().map(|(host, why)| json!({"host": host, "why": why.to_string()})).collect::<Vec<_>>(),
        "settings": change.plan().settings,
    });
    document(text, json)
}

/// The last changes, the newest first.
pub(crate) fn history_document(
    list: &ChangeList,
    state: impl Fn(&ChangeRow) -> Option<ChangeState>,
) -> ApiReply {
    let mut text = String::new();
    let mut rows = Vec::new();
    for row in list.rows.iter().rev() {
        let word = match (&row.end, state(row)) {
            (Some(end), _) => end.state.clone(),
            (None, Some(state)) => state.word().to_owned(),
            (None, None) => "on its way".to_owned(),
        };
        let hosts = counted(row.hosts, "host");
        let begun = format!("begun {} by {}: {}", at_words(row.unix_s), row.who, row.why);
        let end =
            row.end.as_ref().map_or(String::new(), |end| format!("\n  {word} {}", at_words(end.unix_s)));
        writeln!(text, "change {}: {word}: {} on {hosts}\n  {begun}{end}", row.number, row.what)
            .expect("writing to memory does not fail");
        rows.push(json!({
            "number": row.number, "state": word, "what": row.what, "hosts": row.hosts, "who": row.who, "why": row.why,
            "unix_s": row.unix_s, "at": moment_words(row.unix_s), "end": row.end.as_ref().map(end_json),
        }));
    }
    if rows.is_empty() {
        text += "no host was changed yet\n";
    }
    document(text, json!({"changes": rows}))
}

fn end_json(end: &ChangeEnd) -> Value {
    json!({"state": end.state, "why": end.why, "unix_s": end.unix_s, "at": moment_words(end.unix_s)})
}

fn at_words(unix_s: i64) -> String {
    moment_words(unix_s).unwrap_or_else(|| "at an unknown time".to_owned())
}

/// A line of a change that is on its way, for the status of the fleet.
pub(crate) fn change_line(change: &FleetChange) -> String {
    let (plan, counts) = (change.plan(), ChangeCounts::of(change));
    let mut text = format!("change {} ({}): ", plan.number, plan.what);
    write_state(&mut text, &change.state()).expect("writing to memory does not fail");
    let of = counted(plan.hosts.len(), "host");
    format!("{}, {} of {of} changed", text.trim_end(), counts.changed)
}

/// The same for programs.
pub(crate) fn change_brief(change: &FleetChange) -> Value {
    let (plan, state) = (change.plan(), change.state());
    json!({
        "number": plan.number, "what": plan.what, "state": state.word(), "hosts": plan.hosts.len(),
        "counts": counts_json(ChangeCounts::of(change)),
    })
}

fn gate_json(gate: &ShadowGate, state: Option<&GateState>) -> Value {
    json!({"gate": gate, "state": state.map(GateState::word), "why": state.map(GateState::text)})
}

fn counts_json(counts: ChangeCounts) -> Value {
    Value::Object(counts.rows().into_iter().map(|(word, count)| (word.to_owned(), json!(count))).collect())
}

fn write_state(text: &mut String, state: &ChangeState) -> fmt::Result {
    match state {
        ChangeState::Going { wave, waits_for } => {
            writeln!(text, "going on: {wave}; {}", waits_words(waits_for))
        }
        ChangeState::Halted(cause) => writeln!(text, "halted: {cause}"),
        ChangeState::Undoing { cause, left } => {
            writeln!(text, "being undone, {} not heard as before yet: {cause}", counted(*left, "host"))
        }
        ChangeState::Done => writeln!(text, "done"),
        ChangeState::Undone(cause) => writeln!(text, "undone: {cause}"),
    }
}

/// What a change waits for, as a clause.
pub(crate) fn waits_words(waits_for: &WaitsFor) -> String {
    match waits_for {
        WaitsFor::Time => "waits for figures, or for the time of the wave".to_owned(),
        WaitsFor::Register => "waits for the register".to_owned(),
        WaitsFor::Host(host) => format!("waits for {host}"),
        WaitsFor::Signal { by, reason } => format!("waits for the {by}: {reason}"),
    }
}

fn wave_words(wave: usize) -> String {
    match wave {
        0 => "canaries".to_owned(),
        share => format!("share {share}"),
    }
}

fn verdict_words(look: &LookReport) -> String {
    use fleet::waves::LookVerdict::{Better, NotWorse, Undecided, Worse};
    match &look.verdict {
        Better => "better".to_owned(),
        NotWorse => "not worse".to_owned(),
        Worse(figures) => {
            let words: Vec<&str> = figures.iter().map(|figure| figure.word()).collect();
            format!("worse ({})", words.join(", "))
        }
        Undecided => "cannot be told yet".to_owned(),
    }
}

fn by_reason<'h>(left: impl Iterator<Item = (&'h HostId, String)>) -> BTreeMap<String, Vec<&'h HostId>> {
    let mut reasons: BTreeMap<String, Vec<&HostId>> = BTreeMap::new();
    left.for_each(|(host, why)| reasons.entry(why).or_default().push(host));
    reasons
}

fn write_left(text: &mut String, left: &BTreeMap<String, Vec<&HostId>>) -> fmt::Result {
    write_rows(text, "left out", left)
}

fn write_rows(text: &mut String, what: &str, rows: &BTreeMap<String, Vec<&HostId>>) -> fmt::Result {
    for (why, hosts) in rows.iter().take(ROWS_SHOWN) {
        let names: Vec<&str> = hosts.iter().take(HOSTS_SHOWN).map(|host| host.as_str()).collect();
        let more = hosts.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(text, "{what}: {}{more}: {why}", names.join(", "))?;
    }
    write_more(text, rows.len())
}

fn write_more(text: &mut String, all: usize) -> fmt::Result {
    match all.saturating_sub(ROWS_SHOWN) {
        0 => Ok(()),
        more => writeln!(text, "and {more} more, which --json has"),
    }
}

/// `90 s`, `2 min`, `3 h 20 min`.
fn duration(ms: u64) -> String {
    match ms / 1000 {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7_199 => format!("{} min", s / 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}
