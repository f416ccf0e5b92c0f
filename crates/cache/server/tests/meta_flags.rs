//! The table of meta flags, compared row by row with the server, the transcripts and the documentation.

use std::path::Path;

use net::sim::Pace;
use protocol::meta::{Argument, COMMANDS, FLAGS, FlagRow, MetaCommand};
use transcript::{Action, Transcript};

const BEGIN: &str =
    "<!-- meta flags: EVENKEEL_TEST_WRITE=1 cargo test -p server --test main meta_flags -->\n";
const END: &str = "<!-- end of the meta flags -->\n";

fn word(command: MetaCommand) -> &'static str {
    match command {
        MetaCommand::Get => "mg",
        MetaCommand::Set => "ms",
        MetaCommand::Delete => "md",
        MetaCommand::Arithmetic => "ma",
    }
}

/// Requests before: none, or one that stores an item with a CAS, a time to live and client flags.
const BEFORE: [&str; 2] = ["", "ms a2V5 1 E77 T50 F3\r\n5\r\n"];

/// Requests to which a flag is added.
fn requests(command: MetaCommand) -> &'static [&'static str] {
    match command {
        MetaCommand::Get => &["mg a2V5", "mg a2V5 v", "mg a2V5 k", "mg a2V5 N30"],
        MetaCommand::Set => &["ms a2V5 1", "ms a2V5 1 MA", "ms a2V5 1 C5"],
        MetaCommand::Delete => &["md a2V5", "md a2V5 I"],
        MetaCommand::Arithmetic => &["ma a2V5", "ma a2V5 N0"],
    }
}

/// Arguments of a flag; of the modes those that this command has.
fn arguments(argument: Argument, command: MetaCommand) -> &'static [&'static str] {
    match argument {
        Argument::Nothing | Argument::KeyIsBinary => &[""],
        Argument::Opaque => &["token"],
        Argument::Mode if command == MetaCommand::Arithmetic => &["I", "D"],
        Argument::Mode => &["S", "E", "R", "A", "P"],
        // The item's CAS, and times before and after it expires.
        Argument::Number { .. } => &["77", "5", "100"],
    }
}

/// The reply to `request`, and then the item's facts.
fn said(before: &str, request: &str, command: MetaCommand) -> String {
    let body = if command == MetaCommand::Set { "9\r\n" } else { "" };
    let conversation = format!("{before}{request}\r\n{body}mg a2V5 k s v f c t h\r\nmn\r\n");
    let heard = server::sim::hear([conversation.as_bytes()], Pace::default());
    String::from_utf8(heard.output).expect("the server answers in text")
}

/// A request with the flag whose reply differs from the one without.
fn difference(row: &FlagRow, command: MetaCommand) -> Option<String> {
    let letter = char::from(row.letter);
    for (before, request) in
        BEFORE.iter().flat_map(|before| requests(command).iter().map(move |r| (before, r)))
    {
        if request.split(' ').skip(2).any(|flag| flag.starts_with(letter)) {
            continue;
        }
        for argument in arguments(row.argument, command) {
            let with = format!("{request} {letter}{argument}");
            let answer = said(before, &with, command);
            assert!(!answer.contains("ERROR"), "{with}: {answer}");
            if answer != said(before, request, command) {
                return Some(with);
            }
        }
    }
    None
}

#[test]
fn a_flag_affects_exactly_the_commands_of_its_row() {
    for (row, command) in FLAGS.iter().flat_map(|row| COMMANDS.map(|command| (row, command))) {
        let (letter, word) = (char::from(row.letter), word(command));
        match (row.commands.contains(&command), difference(row, command)) {
            (true, None) => panic!("flag {letter} changes nothing for {word}, but its row says that it does"),
            (false, Some(with)) => panic!("{with}: the row of flag {letter} does not have {word}"),
            _ => {}
        }
    }
}

/// Whether the transcript sends `command` with this flag.
fn has(transcript: &Transcript, letter: char, command: &str) -> bool {
    transcript.steps.iter().any(|step| match &step.action {
        Action::Send(_, text) => {
            let mut words = text.source().split(' ');
            words.next() == Some(command) && words.skip(1).any(|flag| flag.starts_with(letter))
        }
        _ => false,
    })
}

#[test]
fn a_transcript_has_each_flag_with_each_command_of_its_row() {
    let transcripts = transcript::all();
    let missing: Vec<String> = FLAGS
        .iter()
        .flat_map(|row| row.commands.iter().map(|&command| (char::from(row.letter), word(command))))
        .filter(|&(letter, command)| !transcripts.iter().any(|t| has(t, letter, command)))
        .map(|(letter, command)| format!("{command} with {letter}"))
        .collect();
    assert!(missing.is_empty(), "no transcript in dev/transcripts has {}", missing.join(", "));
}

/// The table of the documentation.
fn written() -> String {
    let mut lines = "| flag | `mg` | `ms` | `md` | `ma` | meaning |\n|---|---|---|---|---|---|\n".to_owned();
    for row in FLAGS {
        let value = if row.value.is_empty() { String::new() } else { format!("({})", row.value) };
        let marks = COMMANDS.map(|command| if row.commands.contains(&command) { "● |" } else { "|" });
        lines += &format!("| `{}{value}` | {} {} |\n", char::from(row.letter), marks.join(" "), row.meaning);
    }
    lines
}

#[test]
fn the_documentation_has_a_line_for_each_flag() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/serve/compatibility.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the table begins with its marker");
    let (table, after) = rest.split_once(END).expect("the table ends with its marker");
    let wanted = format!("\n{}\n", written());
    if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
        std::fs::write(&path, [before, BEGIN, &wanted, END, after].concat())
            .expect("the page can be written");
        return;
    }
    assert_eq!(
        table, wanted,
        "write it anew: EVENKEEL_TEST_WRITE=1 cargo test -p server --test main meta_flags"
    );
}
