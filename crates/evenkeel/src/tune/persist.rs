//! `evenkeel tune persist`: a plan kept over a restart, by the system's own means, or removed again.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use tuner::Root;
use tuner::persist::Persistence;
use tuner::persist::conflicts::Conflict;
use tuner::persist::store::Done;
use tuning::persist::{PreparedFiles, Request, What};

use super::arguments::{PlanArguments, StateDirectory};
use crate::failure::Failure;
use crate::terminal::output::{print, tell};

/// The exit status of `persist` if another file or program overrides a setting.
const OVERRULED: u8 = 14;

/// Keep a plan over a restart: the plan in force, or the given one
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Ends with 14 if another file or program has the last word about one of the settings."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: PlanArguments,
    /// A plan that `plan --json` has printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "profile", "nic", "irq_cpus", "cpus", "accept_risk"])]
    plan: Option<PathBuf>,
    /// Print every file with its text, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: print JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// Remove everything that `persist` wrote; edited files are kept as FILE.edited
    #[arg(long, conflicts_with_all = ["strategy", "profile", "nic", "irq_cpus", "cpus", "accept_risk", "plan", "dry_run", "force"])]
    remove: bool,
    /// Also replace files of `persist` that were edited; they are kept as FILE.edited
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
    let prepared = arguments.request()?.prepared()?;
    let ending = if prepared.is_overruled() { ExitCode::from(OVERRULED) } else { ExitCode::SUCCESS };
    if arguments.dry_run {
        let text = match arguments.json {
            true => json(&prepared)?,
            false => shown(&prepared.persistence) + &remarks(&prepared),
        };
        print(text.as_bytes())?;
        return Ok(ending);
    }
    if prepared.persistence.files.is_empty() {
        print(remarks(&prepared).as_bytes())?;
        let error = anyhow::anyhow!("keep anything: nothing of this can be kept here");
        return Err(Failure::other(error).hint("the lines above say why"));
    }
    let done = prepared.write(&root, arguments.force)?;
    let text =
        written(&done, &prepared.persistence) + &remarks(&prepared) + &then(&root, &prepared.persistence);
    tell(text.as_bytes());
    Ok(ending)
}

impl Arguments {
    fn request(&self) -> Result<Request, Failure> {
        let wanted = self.wanted.request()?;
        let what = match &self.plan {
            Some(path) => What::Saved(path.clone()),
            None if wanted.asks_for_changes() => What::Requested(wanted),
            None => What::InForce,
        };
        let (host, program) = (self.wanted.host.request(), self.program.clone());
        Ok(Request { what, host, program, state: self.state.request() })
    }
}

fn remove(root: &Root) -> Result<ExitCode, Failure> {
    let done = tuning::persist::remove(root)?;
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

/// Remarks: settings that are not kept, other files that set the same, and what this host lacks.
fn remarks(prepared: &PreparedFiles) -> String {
    let PreparedFiles { persistence, conflicts, surroundings: here } = prepared;
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

/// Commands that activate and test the files, as far as the tools are installed.
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

fn json(prepared: &PreparedFiles) -> Result<String, Failure> {
    let PreparedFiles { persistence, conflicts, surroundings: here } = prepared;
    let whole = serde_json::json!({
        "files": persistence.files, "left": persistence.left, "conflicts": conflicts, "missing": here.gaps(),
    });
    serde_json::to_string_pretty(&whole).map(|text| text + "\n").map_err(Failure::other)
}
