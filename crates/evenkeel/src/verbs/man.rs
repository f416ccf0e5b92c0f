//! Man pages, from the same tables as the help.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use server::flags::{Effect, Flag, TABLE};

use crate::verbs;

/// The width for which texts are wrapped; troff fills lines again.
const COLUMNS: usize = 80;

/// The page of a verb, or of the whole program.
pub(crate) fn page(verb: Option<&str>) -> Vec<u8> {
    let mut command = verbs::command(COLUMNS);
    command.build();
    let page = match verb {
        Some(verb) => {
            let name = format!("evenkeel-{verb}");
            // `tune-check` is a job of a verb, and `kube-warm-upgrade` a job whose name has two words.
            let (first, job) = verb.split_once('-').unwrap_or((verb, ""));
            let words = [first, job].into_iter().filter(|word| !word.is_empty());
            let found = words.fold(&command, |command, word| {
                command.find_subcommand(word).expect("clap has checked the verb")
            });
            let found = found.clone();
            let found = found.display_name(&name).name(name).version(env!("CARGO_PKG_VERSION"));
            render(found, Some(verb))
        }
        None => render(command, None),
    };
    page.expect("writing to memory does not fail")
}

fn render(command: Command, verb: Option<&str>) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(command).manual("Evenkeel").section("1").date(date());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    match verb {
        Some("serve") => {
            extended_options(&mut page)?;
            ending(&mut page)?;
        }
        Some("route") => statuses(&mut page, &crate::route::STATUSES)?,
        Some("replay") => statuses(&mut page, &crate::route::replay::STATUSES)?,
        Some("ready") => statuses(&mut page, &crate::containers::ready::STATUSES)?,
        Some("top") => statuses(&mut page, &crate::top::STATUSES)?,
        Some("tune-check") => statuses(&mut page, &crate::tune::STATUSES)?,
        Some("tune-verify") => statuses(&mut page, &crate::tune::VERIFY_STATUSES)?,
        Some("tune-tournament") => statuses(&mut page, &crate::tune::TOURNAMENT_STATUSES)?,
        Some("lab-history") => statuses(&mut page, &crate::lab::HISTORY_STATUSES)?,
        Some("lab-gate") => statuses(&mut page, &crate::lab::GATE_STATUSES)?,
        Some("tune-watch") => statuses(&mut page, &crate::tune::WATCH_STATUSES)?,
        Some("lab-run") => statuses(&mut page, &crate::lab::RUN_STATUSES)?,
        Some("lab-restore") => statuses(&mut page, &crate::lab::RESTORE_STATUSES)?,
        Some("lab-null") => statuses(&mut page, &crate::lab::NULL_STATUSES)?,
        Some("lab-report") => statuses(&mut page, &crate::lab::REPORT_STATUSES)?,
        Some("lab-weeks") => statuses(&mut page, &crate::lab::WEEKS_STATUSES)?,
        Some("lab-compare") => statuses(&mut page, &crate::lab::COMPARE_STATUSES)?,
        Some("advise") => {
            man.render_subcommands_section(&mut page)?;
            statuses(&mut page, &crate::advise::STATUSES)?;
        }
        Some("advise-import") => statuses(&mut page, &crate::advise::IMPORT_STATUSES)?,
        Some("advise-costs") => statuses(&mut page, &crate::advise::COSTS_STATUSES)?,
        Some("advise-rate") => statuses(&mut page, &crate::advise::RATE_STATUSES)?,
        Some("kube-warm-upgrade") => statuses(&mut page, &crate::containers::kube::STATUSES)?,
        Some(job) if job.starts_with("control-") => statuses(&mut page, &crate::control::STATUSES)?,
        _ => man.render_subcommands_section(&mut page)?,
    }
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// The page's date, as 2026-11-30: that of SOURCE_DATE_EPOCH, by which packages are made twice with the same bytes, or today.
fn date() -> String {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = given.unwrap_or_else(|| os::clock::unix_s().cast_signed());
    time::OffsetDateTime::from_unix_timestamp(seconds).map_or(String::new(), |time| time.date().to_string())
}

fn extended_options(page: &mut Vec<u8>) -> std::io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["EXTENDED OPTIONS"]);
    roff.text([roman("The names that "), bold("-o"), roman(" takes, as a list separated by commas.")]);
    for option in TABLE.options().filter(|option| option.effect == Effect::Works) {
        roff.control("TP", []);
        roff.text([bold(TABLE.typed(option))]);
        roff.text([roman(plain(&option.line()))]);
    }
    roff.control("SH", ["ACCEPTED WITHOUT EFFECT"]);
    reasons(&mut roff, &TABLE.without_effect());
    roff.control("SH", ["NOT SUPPORTED YET"]);
    roff.text([roman("Each of these keeps the server from starting.")]);
    reasons(&mut roff, &TABLE.not_yet());
    roff.to_writer(page)
}

fn reasons(roff: &mut Roff, reasons: &[(&str, Vec<&'static Flag>)]) {
    for (why, flags) in reasons {
        roff.control("PP", []);
        roff.text([roman(format!("{why}:"))]);
        for flag in flags {
            roff.control("TP", []);
            roff.text([bold(TABLE.typed(flag).trim_start())]);
            roff.text([roman(flag.doc)]);
        }
    }
}

fn ending(page: &mut Vec<u8>) -> std::io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["SIGNALS"]);
    entries(
        &mut roff,
        &[
            (
                "SIGINT, SIGTERM, SIGUSR1",
                "End the server; a second one does so without waiting for connections.",
            ),
            ("SIGHUP", "Reads the users of -Y again. If the file is bad, the users stay as they were."),
        ],
    );
    roff.control("SH", ["EXIT STATUS"]);
    entries(
        &mut roff,
        &[
            ("0", "The server was ended as requested. With -d: it serves in the background."),
            ("64", "The command line is wrong."),
            ("67", "The user to become does not exist."),
            ("71", "The system refused: an address is taken, a limit cannot be raised."),
            ("1", "Anything else."),
        ],
    );
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("memcached"), roman("(1), "), bold("evenkeel"), roman("(1)")]);
    roff.to_writer(page)
}

fn statuses(page: &mut Vec<u8>, statuses: &[(&str, &str)]) -> std::io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    entries(&mut roff, statuses);
    roff.to_writer(page)
}

fn entries(roff: &mut Roff, entries: &[(&str, &str)]) {
    for (term, text) in entries {
        let (term, text): (Inline, Inline) = (bold(*term), roman(*text));
        roff.control("TP", []);
        roff.text([term]);
        roff.text([text]);
    }
}

/// Replaces no-break spaces, which are for terminals.
fn plain(text: &str) -> String {
    text.replace('\u{a0}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_serve_names_every_flag_and_every_option() {
        let page = String::from_utf8(page(Some("serve"))).expect("pages are text").replace("\\-", "-");
        for flag in TABLE.flags() {
            assert!(page.contains(&format!("--{}", flag.name)), "{}", flag.name);
        }
        for option in TABLE.options() {
            assert!(page.contains(option.name), "{}", option.name);
        }
    }

    #[test]
    fn there_is_a_page_for_each_verb_and_one_for_all() {
        for (verb, title) in [
            (None, "evenkeel"),
            (Some("serve"), "evenkeel-serve"),
            (Some("route"), "evenkeel-route"),
            (Some("replay"), "evenkeel-replay"),
            (Some("load"), "evenkeel-load"),
            (Some("tune"), "evenkeel-tune"),
            (Some("tune-check"), "evenkeel-tune-check"),
        ] {
            let page = String::from_utf8(page(verb)).expect("pages are text").replace("\\-", "-");
            let head =
                page.lines().find_map(|line| line.strip_prefix(&format!(".TH {title} 1 "))).expect("a title");
            let date: Vec<usize> =
                head.split(' ').next().unwrap_or_default().split('-').map(str::len).collect();
            assert_eq!(date, [4, 2, 2], "{head}");
        }
    }
}
