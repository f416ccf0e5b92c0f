//! `evenkeel tune persist`: keep a plan over a restart, by the system's own means, and take it away again.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tuner::apply::journal::{Journal, State};
use tuner::persist::conflicts::{Conflict, Winner, conflicts};
use tuner::persist::store::{self, Condition, Done};
use tuner::persist::{Held, Keep, Persistence, Surroundings, persistence, reads_back};
use tuner::{Facts, Root};

use super::apply;
use super::plan::Wanted;
use super::rollback;
use super::state::StateDirectory;
use crate::failure::Failure;
use crate::output::{print, tell};

/// What `persist` ends with when somebody else has the last word about a setting.
const OVERRULED: u8 = 14;

/// Keep a plan over a restart: what is in force, or what is asked for
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Ends with 14 if another file or program has the last word about one of the settings."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// A plan that `plan --json` has printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "profile", "nic", "irq_cpus", "cpus", "accept_risk"])]
    plan: Option<PathBuf>,
    /// Print every file with its text, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: print JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// Take everything away that was written here; edited files are kept as FILE.edited
    #[arg(long, conflicts_with_all = ["strategy", "profile", "nic", "irq_cpus", "cpus", "accept_risk", "plan", "dry_run", "force"])]
    remove: bool,
    /// Also replace files of ours that were edited; they are kept as FILE.edited
    #[arg(long)]
    force: bool,
    /// The program that the boot unit starts [default: this one]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    #[command(flatten)]
    state: StateDirectory,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let given = &arguments.wanted.host.root;
    if given.is_file() {
        let hint = "take the directory with its /etc, /proc and /sys".to_owned();
        return Err(Failure::usage("a file with a captured host has no /etc", Some(hint)));
    }
    let root = Root::new(given);
    if arguments.remove {
        return remove(&root);
    }
    let (facts, keeps) = wanted(arguments, &root)?;
    let here = Surroundings::read(&root, program(arguments)?).map_err(Failure::other)?;
    let persistence = persistence(&keeps, &facts, &here);
    reads_back(&persistence.files)
        .map_err(|why| Failure::other(anyhow::anyhow!("read back what would be written: {why}")))?;
    let conflicts = conflicts(&root, &facts, &keeps, &persistence).map_err(Failure::other)?;
    let ending = match conflicts.iter().any(|conflict| conflict.winner == Winner::Theirs) {
        true => ExitCode::from(OVERRULED),
        false => ExitCode::SUCCESS,
    };
    if arguments.dry_run {
        let text = match arguments.json {
            true => json(&persistence, &conflicts, &here)?,
            false => shown(&persistence) + &remarks(&persistence, &conflicts, &here),
        };
        print(text.as_bytes())?;
        return Ok(ending);
    }
    if persistence.files.is_empty() {
        print(remarks(&persistence, &conflicts, &here).as_bytes())?;
        let error = anyhow::anyhow!("keep anything: nothing of this can be kept here");
        return Err(Failure::other(error).hint("the lines above say why"));
    }
    let done = store::write(&root, &persistence, arguments.force).map_err(refused)?;
    let text =
        written(&done, &persistence) + &remarks(&persistence, &conflicts, &here) + &then(&root, &persistence);
    tell(text.as_bytes());
    Ok(ending)
}

/// What `status` says of it, and whether every file is as it was written.
pub(super) fn status(root: &Root) -> Result<(String, bool), Failure> {
    let status = store::status(root).map_err(Failure::other)?;
    if status.files.is_empty() {
        return Ok(("Nothing persists.\n".to_owned(), true));
    }
    let mut text = "Persists:\n".to_owned();
    if status.interrupted {
        text += "  INTERRUPTED while it was written; `evenkeel tune persist`, with or without --remove, puts it right\n";
    }
    for (file, condition) in &status.files {
        let condition = match condition {
            Condition::AsWritten => "as it was written",
            Condition::Edited => "EDITED since it was written",
            Condition::Missing => "MISSING",
        };
        let _ = writeln!(text, "  {}: {condition}", file.path);
    }
    let whole = status.files.iter().all(|(_, condition)| *condition == Condition::AsWritten);
    Ok((text, whole && !status.interrupted))
}

/// What is to be kept, and the facts that it was planned from.
fn wanted(arguments: &Arguments, root: &Root) -> Result<(Facts, Vec<Keep>), Failure> {
    let probe = || arguments.wanted.host.facts();
    if let Some(path) = &arguments.plan {
        let plan = apply::saved(path, root)?;
        if plan.then.is_some() {
            let error = anyhow::anyhow!(
                "keep {}: what belongs to its new queues is planned only when they are there",
                path.display()
            );
            let hint = "`evenkeel tune apply` it first; `persist` without --plan then keeps what is in force";
            return Err(Failure::other(error).hint(hint));
        }
        return Ok((probe()?, plan.changes.iter().map(Keep::from).collect()));
    }
    if arguments.wanted.asks_for_changes() {
        let (facts, plan) = arguments.wanted.whole_plan()?;
        let said = plan.refusals.iter().map(|refusal| format!("{}: {}", refusal.subject, refusal.reason));
        if plan.changes.is_empty() {
            let why: Vec<String> = said.collect();
            return Err(Failure::other(anyhow::anyhow!("plan anything: {}", why.join("; "))));
        }
        return Ok((facts, plan.changes.iter().map(Keep::from).collect()));
    }
    Ok((probe()?, in_force(arguments, root)?))
}

/// The settings of all plans that are in force; of a setting in several of them, the newest.
fn in_force(arguments: &Arguments, root: &Root) -> Result<Vec<Keep>, Failure> {
    let journals = rollback::in_force(arguments.state.look(root)?);
    let refuse = |why: &str, hint: &str| {
        Err(Failure::other(anyhow::anyhow!("keep what is in force: {why}")).hint(hint))
    };
    let waits = |journal: &Journal| journal.state() == State::Applied && journal.confirm_by_ms().is_some();
    if journals.is_empty() {
        let hint = "`evenkeel tune apply` something first, or say --strategy, --profile or --plan";
        return refuse("nothing is, or it is of an earlier start", hint);
    }
    if journals.iter().any(|journal| journal.state() == State::Unfinished) {
        return refuse("a plan was interrupted", "`evenkeel tune rollback` undoes it");
    }
    if journals.iter().any(waits) {
        return refuse("a plan still waits to be confirmed", "`evenkeel tune confirm`, and try again");
    }
    let mut keeps: Vec<Keep> = Vec::new();
    for step in journals.iter().flat_map(Journal::steps).filter(|step| !step.left && !step.undone) {
        if !keeps.iter().any(|keep| keep.setting == step.setting) {
            keeps.push(Keep::from(step));
        }
    }
    Ok(keeps)
}

fn program(arguments: &Arguments) -> Result<String, Failure> {
    let failed = |error| Failure::system("find this program", error);
    let path = match &arguments.program {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(failed)?,
    };
    Ok(path.display().to_string())
}

fn remove(root: &Root) -> Result<ExitCode, Failure> {
    let done = store::remove(root).map_err(refused)?;
    let mut text = String::new();
    for path in &done.paths {
        let _ = writeln!(text, "Removed {path}");
    }
    text += &aside(&done);
    text += "Values that are in force stay so until the next start; `evenkeel tune rollback` undoes those of `apply`.\n";
    if root.is_live() {
        text += "Then: systemctl daemon-reload; udevadm control --reload\n";
    }
    tell(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn refused(error: store::Error) -> Failure {
    let hint = match &error {
        store::Error::Foreign { .. } => "move it away, or keep its settings yourself",
        store::Error::Edited { .. } => "--force keeps it as FILE.edited and writes ours",
        store::Error::Nothing => "`evenkeel tune persist --dry-run` shows what would be written",
        store::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem => {
            "/etc comes from an image here: let --dry-run print the files, and put them into the image"
        }
        store::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            "run as root"
        }
        store::Error::Halfway { .. } => "`evenkeel tune persist --remove` tries again",
        _ => return Failure::other(error),
    };
    Failure::other(error).hint(hint)
}

/// Every file with its text.
fn shown(persistence: &Persistence) -> String {
    let mut text = String::new();
    for file in &persistence.files {
        let _ = writeln!(text, "==> {} ({:04o}): {}\n{}", file.path, file.mode, file.why, file.text);
    }
    if persistence.files.is_empty() {
        text += "Nothing would be written.\n";
    }
    text
}

fn written(done: &Done, persistence: &Persistence) -> String {
    let mut text = String::new();
    if done.recovered {
        text += "An earlier attempt had been interrupted; it was undone first.\n";
    }
    for file in &persistence.files {
        let _ = writeln!(text, "Wrote {}: {}", file.path, file.why);
    }
    text + &aside(done)
}

fn aside(done: &Done) -> String {
    done.aside.iter().fold(String::new(), |text, (path, aside)| {
        text + &format!("{path} was edited: it is kept as {aside}\n")
    })
}

/// What is not kept, who sets the same, and what this host lacks.
fn remarks(persistence: &Persistence, conflicts: &[Conflict], here: &Surroundings) -> String {
    let mut text = String::new();
    for left in &persistence.left {
        let _ = writeln!(text, "Not kept ({}): {}: {}.", left.asked_by, left.subject, left.reason);
    }
    for conflict in conflicts {
        let Conflict { place, sets, winner, advice } = conflict;
        let _ = writeln!(text, "Also set by {place} ({sets}): {}; {advice}.", winner.words());
    }
    for gap in here.gaps() {
        let _ = writeln!(text, "Missing: {gap}.");
    }
    text
}

/// What makes it known to the system, and what tries it out, as far as the tools are there.
fn then(root: &Root, persistence: &Persistence) -> String {
    let has = |program: &str| {
        ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].iter().any(|at| root.exists(&format!("{at}/{program}")))
    };
    let writes = |part: &str| persistence.files.iter().any(|file| file.path.contains(part));
    let mut lines =
        vec!["Values change with the next start; `evenkeel tune apply` changes them now.".to_owned()];
    if writes("/systemd/system/") && has("systemctl") {
        lines.push("To make the units known:   systemctl daemon-reload".to_owned());
    }
    if writes("irqbalance.service.d") && has("systemctl") {
        lines.push("To let irqbalance ask:     systemctl restart irqbalance".to_owned());
    }
    if writes("evenkeel-tune.service") && has("systemd-analyze") {
        lines.push("To check the unit:         systemd-analyze verify evenkeel-tune.service".to_owned());
    }
    if writes("/sysctl.d/") && has("sysctl") {
        lines.push("To try the settings:       sysctl -p /etc/sysctl.d/90-evenkeel.conf".to_owned());
    }
    if writes("/tmpfiles.d/") && has("systemd-tmpfiles") {
        lines.push(
            "To try the lines:          systemd-tmpfiles --create /etc/tmpfiles.d/evenkeel.conf".to_owned(),
        );
    }
    if writes("/systemd/network/") && has("udevadm") {
        lines.push(
            "To try the .link file:     udevadm test-builtin net_setup_link /sys/class/net/NAME   (sets it now; the \
             link may blink)"
                .to_owned(),
        );
    }
    if writes("/evenkeel/tune.json") {
        lines.push(
            "To see what it plans now:  evenkeel tune apply --dry-run --intent /etc/evenkeel/tune.json"
                .to_owned(),
        );
    }
    if writes("/udev/rules.d/") && has("udevadm") {
        lines.push("To make the rules known:   udevadm control --reload".to_owned());
        lines.push("To check the rules:        udevadm verify   (systemd 254 and later)".to_owned());
        lines.push("To see them act:           udevadm test --action=add /sys/class/net/NAME".to_owned());
    }
    lines.push("`evenkeel tune persist --remove` takes everything away.".to_owned());
    lines.join("\n") + "\n"
}

fn json(persistence: &Persistence, conflicts: &[Conflict], here: &Surroundings) -> Result<String, Failure> {
    let whole = serde_json::json!({
        "files": persistence.files, "left": persistence.left, "conflicts": conflicts, "missing": here.gaps(),
    });
    serde_json::to_string_pretty(&whole).map(|text| text + "\n").map_err(Failure::other)
}

/// What the files have brought about at this start, if all went well.
pub(super) fn held(root: &Root) -> Result<Vec<Held>, Failure> {
    store::held(root).map_err(Failure::other)
}

/// The intent that was written to a file.
pub(super) fn intent(path: &Path) -> Result<tuner::persist::intent::Intent, Failure> {
    let what = format!("read the intent {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Failure::system(what, error))?;
    tuner::persist::intent::Intent::parse(&text).map_err(Failure::other)
}
