//! The outcome of a replay, as text and as JSON.

use std::fmt::Write as _;

use replay::{REFUSED, ReplayTally, ServerTally};
use serde_json::json;
use stdx::words::counted;

/// Servers, and places of what was refused, that the text names.
const SHOWN_MAX: usize = 10;

/// What the user reads at the end. Of a dry run, nothing was sent.
pub(super) fn text(replayed: &ReplayTally, is_dry: bool) -> String {
    let servers = &replayed.servers;
    let (mut text, count) = (String::new(), servers.iter().filter(|server| server.sent > 0).count());
    let mut line = |words: String| {
        writeln!(text, "{words}").expect("writing to memory does not fail");
    };
    match is_dry {
        true => {
            line(format!("{} would be sent, nothing was", counted(replayed.sent as usize, "delete")));
            for server in servers.iter().take(SHOWN_MAX) {
                line(format!("  {} to {}", server.sent, server.name));
            }
            let more = servers.len().saturating_sub(SHOWN_MAX);
            if more > 0 {
                line(format!("  others to {}", counted(more, "server")));
            }
        }
        false => line(format!(
            "{} sent to {}; {} done",
            counted(replayed.sent as usize, "delete"),
            counted(count, "server"),
            counted(replayed.files_done as usize, "file")
        )),
    }
    if replayed.files_left > 0 {
        let deletes = if replayed.left > 0 {
            format!(", {} or more", counted(replayed.left as usize, "delete"))
        } else {
            String::new()
        };
        line(format!(
            "{} left{deletes}: the same command goes on",
            counted(replayed.files_left as usize, "file")
        ));
    }
    let troubled = servers.iter().filter(|server| server.is_away);
    for server in troubled.clone().take(SHOWN_MAX) {
        let why = server.trouble.as_deref().unwrap_or("no answer");
        line(format!("  {} does not answer: {why}", server.name));
    }
    let more = troubled.count().saturating_sub(SHOWN_MAX);
    if more > 0 {
        line(format!("  and {more} others"));
    }
    if let Some(refusal) = &replayed.refusal {
        line(format!("  a server has answered: {refusal}"));
    }
    if let Some(trouble) = &replayed.trouble {
        line(format!("  {trouble}"));
    }
    if replayed.refused > 0 {
        line(match is_dry {
            true => format!("{} no deletes:", counted(replayed.refused as usize, "line")),
            false => {
                format!("{} no deletes, moved out of the way:", counted(replayed.refused as usize, "line"))
            }
        });
        let end = if is_dry { "" } else { REFUSED };
        replayed
            .refused_in
            .iter()
            .take(SHOWN_MAX)
            .for_each(|path| line(format!("  {}{end}", path.display())));
    }
    if replayed.files_in_use > 0 {
        line(format!("{} in use, and left alone", counted(replayed.files_in_use as usize, "file")));
    }
    text
}

/// The same for programs.
pub(super) fn json(replayed: &ReplayTally, is_dry: bool) -> String {
    let server = |server: &ServerTally| {
        json!({"server": &*server.name, "sent": server.sent, "failures": server.failures,
                   "is_away": server.is_away, "trouble": server.trouble})
    };
    let whole = json!({
        "dry_run": is_dry,
        "sent": replayed.sent,
        "left": replayed.left,
        "refused": replayed.refused,
        "refused_in": replayed.refused_in,
        "files": {"done": replayed.files_done, "left": replayed.files_left, "in_use": replayed.files_in_use},
        "trouble": replayed.trouble,
        "refusal": replayed.refusal,
        "servers": replayed.servers.iter().map(server).collect::<Vec<_>>(),
    });
    format!("{whole}\n")
}
