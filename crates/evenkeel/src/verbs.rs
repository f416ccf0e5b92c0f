//! The verbs and their command lines.

use std::ffi::OsString;
use std::io::{self, BufReader, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use clap_complete::Shell;
use server::flags;

use crate::containers::{kube, ready};
use crate::failure::Failure;
use crate::route::{self, replay};
use crate::terminal::log;
use crate::terminal::output::{COLUMNS_DEFAULT, columns, passed_on, print};
use crate::{advise, agent, control, lab, serve, top, tune, up};

/// What is typed to the program alone.
const OF_THE_PROGRAM: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// A command line that begins with a flag is one of `serve`, as that of memcached: `docker run IMAGE -m 1024`.
pub(crate) fn with_verb(mut typed: Vec<OsString>) -> Vec<OsString> {
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if typed.get(1).is_some_and(|word| is_flag(word) && OF_THE_PROGRAM.iter().all(|own| word != own)) {
        typed.insert(1, "serve".into());
    }
    typed
}

/// Of verbs that run long.
fn log_argument() -> Arg {
    let format =
        Arg::new(LOG).long(LOG).value_name("FORMAT").value_parser(["text", "json"]).default_value("text");
    format.help("Format of the log; json is an object in each line: ts (UTC), level, verb, text")
}

/// The flag for the format of the log. `serve` and `route` have it in their tables.
const LOG: &str = "log";

/// The format of the log that the command line asks for, of whichever verb or job.
fn asks_for_json(matches: &ArgMatches) -> bool {
    let own = matches.try_get_one::<String>(LOG).ok().flatten().is_some_and(|format| format == "json");
    own || matches.subcommand().is_some_and(|(_, inner)| asks_for_json(inner))
}

/// The whole command line, with help for a terminal of this many columns.
pub(crate) fn command(columns: usize) -> Command {
    let page = Arg::new("verb").help("The verb whose page it is").value_parser(pages());
    let shell = Arg::new("shell").help("The shell").required(true).value_parser(value_parser!(Shell));
    let whole = Command::new("evenkeel")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A memcached-compatible cache, and what it takes to run one")
        .after_help("`evenkeel <command> --help` says more about each.")
        .term_width(columns)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            up::Arguments::augment_args(
                Command::new("up").about("Start servers and a router on this machine"),
            )
            .arg(log_argument()),
        )
        .subcommand(flags::TABLE.command(columns))
        .subcommand(router::flags::TABLE.command(columns))
        .subcommand(
            replay::Arguments::augment_args(
                Command::new("replay")
                    .about("Send deletes that a router has kept for servers that were away"),
            )
            .arg(log_argument()),
        )
        .subcommand(ready::Arguments::augment_args(
            Command::new("ready").about("Ask whether a server, a router, a controller or an agent is ready"),
        ))
        .subcommand(load::Arguments::augment_args(
            Command::new("load").about("Generate load, and measure it"),
        ))
        .subcommand(top::Arguments::augment_args(Command::new("top").about("Watch servers in the terminal")))
        .subcommand(tune::command().mut_subcommand("watch", |watch| watch.arg(log_argument())))
        .subcommand(lab::command())
        .subcommand(advise::command())
        .subcommand(control::command().mut_subcommand("serve", |serve| {
            // What is typed behind a file counts.
            serve.arg(log_argument()).args_override_self(true)
        }))
        .subcommand(
            agent::Arguments::augment_args(
                Command::new("agent").about("Do on this host what controllers decide"),
            )
            .arg(log_argument()),
        )
        .subcommand(kube::command().mut_subcommand("warm-upgrade", |job| job.arg(log_argument())))
        .subcommand(Command::new("man").about("Print the man page of a command").arg(page))
        .subcommand(Command::new("completions").about("Print completions for a shell").arg(shell));
    short_help::with_short_help(whole)
}

/// Names of the man pages: the verbs that have flags, and the jobs of `tune` and `lab` as `tune-check`.
fn pages() -> Vec<String> {
    // Those that only this program itself starts are hidden.
    let jobs = |verb: Command| -> Vec<String> {
        let jobs = verb.get_subcommands().filter(|job| !job.is_hide_set());
        jobs.map(|job| format!("{}-{}", verb.get_name(), job.get_name())).collect()
    };
    let verbs = [
        "up", "serve", "route", "replay", "ready", "load", "top", "tune", "lab", "advise", "control",
        "agent", "kube",
    ]
    .map(str::to_owned)
    .into_iter();
    verbs
        .chain(
            [tune::command(), lab::command(), advise::command(), control::command(), kube::command()]
                .into_iter()
                .flat_map(jobs),
        )
        .collect()
}

/// Carries out a command line, name of the program first, and returns the exit status.
pub(crate) fn run(typed: &[OsString]) -> Result<ExitCode, Failure> {
    let columns = columns();
    let typed = &flag_file::with_flags_of_files(typed)?;
    let (words, notes) = match name(typed) {
        // Names that no version of mcrouter knows are a line there, not an end.
        Some("route") => route::words(typed),
        _ => (typed.clone(), Vec::new()),
    };
    let matches = match command(columns).try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return refused(error, typed),
    };
    if asks_for_json(&matches) {
        log::write_json();
    }
    notes.iter().for_each(|note| route::notice(note));
    let done = match matches.subcommand() {
        Some(("tune", matches)) => return tune::run(matches, columns),
        Some(("lab", matches)) => return lab::run(matches),
        Some(("advise", matches)) => return advise::run(matches),
        Some(("control", matches)) => return control::run(matches),
        Some(("kube", matches)) => return kube::run(matches),
        Some(("agent", matches)) => agent::run(
            &agent::Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?,
        ),
        Some(("serve", matches)) => serve::run(flags::TABLE.read(matches).map_err(serve::refused)?),
        Some(("route", matches)) => route::run(router::flags::TABLE.read(matches).map_err(route::refused)?),
        Some(("load", matches)) => {
            let arguments = load::Arguments::from_arg_matches(matches);
            generate_load(&arguments.map_err(|error| Failure::usage(error, None))?, matches)
        }
        Some(("up", matches)) => {
            let arguments = up::Arguments::from_arg_matches(matches);
            return up::run(&arguments.map_err(|error| Failure::usage(error, None))?);
        }
        Some(("replay", matches)) => {
            let arguments = replay::Arguments::from_arg_matches(matches);
            return replay::run(&arguments.map_err(|error| Failure::usage(error, None))?);
        }
        Some(("top", matches)) => {
            let arguments = top::Arguments::from_arg_matches(matches);
            return top::run(&arguments.map_err(|error| Failure::usage(error, None))?);
        }
        Some(("ready", matches)) => {
            let arguments = ready::Arguments::from_arg_matches(matches);
            return ready::run(&arguments.map_err(|error| Failure::usage(error, None))?);
        }
        Some(("man", matches)) => print(&man::page(matches.get_one::<String>("verb").map(String::as_str))),
        Some(("completions", matches)) => {
            let shell = *matches.get_one::<Shell>("shell").expect("clap requires the shell");
            print(&completions(shell))
        }
        _ => unreachable!("clap requires one of the verbs above"),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The verb that was typed, if it is one.
pub(crate) fn name(typed: &[OsString]) -> Option<&'static str> {
    let verbs = [
        "up",
        "serve",
        "route",
        "replay",
        "ready",
        "load",
        "top",
        "tune",
        "lab",
        "advise",
        "control",
        "agent",
        "kube",
        "man",
        "completions",
    ];
    verbs.into_iter().find(|verb| typed.get(1).is_some_and(|typed| typed == verb))
}

/// Prints the requested help, or returns the error.
fn refused(error: clap::Error, typed: &[OsString]) -> Result<ExitCode, Failure> {
    let verb = name(typed);
    if verb == Some("serve") {
        return match flags::TABLE.refusal(error) {
            flags::Error::Asked(text) => shown(&text),
            error => Err(serve::refused(error)),
        };
    }
    if verb == Some("route") {
        return match router::flags::TABLE.refusal(error) {
            router::flags::Error::Asked(text) => shown(&text),
            error => Err(route::refused(error)),
        };
    }
    if !error.use_stderr() {
        return shown(&error);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Err(Failure::usage(
            "expected a command, found nothing",
            Some(match verb {
                Some(verb) => format!("`evenkeel {verb} --help` lists them"),
                None => "`evenkeel --help` lists them".into(),
            }),
        ));
    }
    let text = error.to_string();
    // Below the first paragraph there are a usage line and a tip, which the failure's hint replaces.
    let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let line = lines.join(" ");
    let line = in_plain_words(line.strip_prefix("error: ").unwrap_or(&line));
    Err(Failure::usage(line, Some(hint(&error, typed))))
}

/// A message with the words of the standard library's parsers replaced by what is accepted.
fn in_plain_words(line: &str) -> String {
    const WORDS: [(&str, &str); 9] = [
        ("invalid float literal", "expected a number such as 2 or 0.5"),
        ("cannot parse float from empty string", "expected a number such as 2 or 0.5"),
        ("invalid digit found in string", "expected a whole number"),
        ("cannot parse integer from empty string", "expected a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid socket address syntax", "expected an address with a port such as 127.0.0.1:11211"),
        ("invalid IP address syntax", "expected an address such as 127.0.0.1"),
        ("provided string was not `true` or `false`", "expected true or false"),
    ];
    WORDS.iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to))
}

/// What was probably meant, or where one reads what is accepted.
fn hint(error: &clap::Error, typed: &[OsString]) -> String {
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let meant = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(name) => Some(name),
        // The likeliest comes last.
        ContextValue::Strings(names) => names.last(),
        _ => None,
    });
    match meant {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("`{} --help` says what is accepted", command_of(typed)),
    }
}

/// The command that was typed, as far as it is one: `evenkeel tune check`.
fn command_of(typed: &[OsString]) -> String {
    let top = command(COLUMNS_DEFAULT);
    let (mut innermost, mut words) = (&top, String::from("evenkeel"));
    for word in typed.iter().skip(1) {
        let Some(command) = innermost.find_subcommand(word) else { break };
        innermost = command;
        words = format!("{words} {}", command.get_name());
    }
    words
}

fn shown(text: &clap::Error) -> Result<ExitCode, Failure> {
    passed_on(text.print()).map(|()| ExitCode::SUCCESS)
}

fn generate_load(arguments: &load::Arguments, matches: &ArgMatches) -> Result<(), Failure> {
    if arguments.agent {
        // An agent ends with its coordinator, at any point: it has nothing to clean up.
        let gone = || std::process::exit(1);
        return load::agent(BufReader::new(io::stdin()), &mut io::stdout(), gone).map_err(Failure::other);
    }
    if let Some(listing) = arguments.listing() {
        return print(listing.as_bytes());
    }
    if arguments.kubernetes_job.is_some() {
        let manifest = load::kubernetes_job(arguments, matches).map_err(not_loaded)?;
        return print(manifest.as_bytes());
    }
    let mut progress: Box<dyn Write> = match io::stderr().is_terminal() {
        true => Box::new(io::stderr()),
        false => Box::new(io::sink()),
    };
    if arguments.self_test {
        let test = load::self_test(arguments, &mut progress).map_err(not_loaded)?;
        print(test.to_string().as_bytes())?;
        return if test.passed { Ok(()) } else { Err(Failure::other(anyhow::anyhow!(SELF_TEST_FAILED))) };
    }
    if let Some(objective) = &arguments.search {
        let knee = match arguments.agents.is_empty() {
            true => load::search(arguments, objective, &mut progress),
            false => load::search_on_agents(arguments, objective, &mut progress),
        };
        let knee = knee.map_err(not_loaded)?;
        print(knee.to_string().as_bytes())?;
        return match knee.is_clean() {
            true => check_validity(arguments, knee.ended.is_none()),
            false => Err(Failure::other(anyhow::anyhow!(load::WRONG_REPLIES))),
        };
    }
    let summary = match arguments.agents.is_empty() {
        true => load::run(arguments, &mut progress),
        false => load::run_on_agents(arguments, &mut progress),
    };
    let summary = summary.map_err(not_loaded)?;
    print(summary.to_string().as_bytes())?;
    match (summary.complaint(), summary.is_recorded_whole()) {
        (None, true) => check_validity(arguments, summary.is_valid()),
        (None, false) => Err(Failure::other(anyhow::anyhow!(RECORDING_INCOMPLETE))),
        (Some(complaint), _) => Err(Failure::other(anyhow::Error::msg(complaint))),
    }
}

/// With `--strict`, an invalid result is a failure.
fn check_validity(arguments: &load::Arguments, is_valid: bool) -> Result<(), Failure> {
    match is_valid || !arguments.strict {
        true => Ok(()),
        false => Err(Failure::other(anyhow::anyhow!(RESULT_INVALID)).with_status(STATUS_INVALID)),
    }
}

/// Exit status of an invalid result: try again when the machine is idle (EX_TEMPFAIL).
const STATUS_INVALID: u8 = 75;

/// Arguments that contradict each other are usage errors, as unknown ones are.
fn not_loaded(error: load::Error) -> Failure {
    match error {
        load::Error::Arguments(_) => Failure::usage(error, None),
        error => Failure::other(error),
    }
}

/// The load ran, but its result is invalid.
const RESULT_INVALID: &str = "the result is INVALID (--strict): see above";

/// The load ran, but the disk did not keep up with the recording.
const RECORDING_INCOMPLETE: &str = "the recording is incomplete: see above";

/// The self-test's results differ from theory.
const SELF_TEST_FAILED: &str = "this generator, on this machine, is off: see above";

fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(COLUMNS_DEFAULT), "evenkeel", &mut script);
    script
}

mod flag_file;
mod man;
mod short_help;

#[cfg(test)]
mod pages;

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn clap_accepts_the_command_line() {
        command(80).debug_assert();
    }

    /// Checks that the command line is refused with this status and message.
    #[track_caller]
    fn check(line: &str, wanted: &str) {
        let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let failure = run(&typed).expect_err(line);
        assert_eq!(format!("{} {failure}", failure.status()), wanted, "{line}");
    }

    #[test]
    fn a_wrong_command_line_ends_with_64() {
        check("evenkeel", "64 expected a command, found nothing");
        check("evenkeel server", "64 unrecognized subcommand 'server'");
        check("evenkeel serve --memroy 1", "64 unknown flag `--memroy`");
        check("evenkeel serve -o proxy_config=x", "64 -o proxy_config: not supported yet");
        check("evenkeel serve -o x", "64 -o x: unknown option");
        check("evenkeel load --depht 1", "64 unexpected argument '--depht' found");
        check(
            "evenkeel load --self-test --rate 5",
            "64 the argument '--self-test' cannot be used with '--rate <N>'",
        );
        check("evenkeel tune", "64 expected a command, found nothing");
        check("evenkeel tune chekc", "64 unrecognized subcommand 'chekc'");
        check("evenkeel lab", "64 expected a command, found nothing");
        check("evenkeel lab run", "64 the following required arguments were not provided: <FILE>");
        check(
            "evenkeel lab null --port 1 --to x",
            "64 invalid value 'x' for '--to <IP:PORT>': expected an address with a port such as 127.0.0.1:11211",
        );
        check("evenkeel load --tls-insecure", "64 the following required arguments were not provided: --tls");
        let few = "64 use these arguments: 2 threads of all agents need as many connections";
        check("evenkeel load --agents a,b --connections 1", few);
        let alone = "64 use these arguments: --record is for one machine: the agents' requests would be on their own disks, \
                     too many to be sent here; record without --agents, and let these replay that with --trace and --speed";
        check("evenkeel load --agents a,b --record x", alone);
        check("evenkeel load --depth 0", "64 use these arguments: --depth must be at least 1");
        check(
            "evenkeel load --rate fast",
            "64 invalid value 'fast' for '--rate <N>': expected a number such as 2 or 0.5",
        );
        check(
            "evenkeel tune check --seconds few",
            "64 invalid value 'few' for '--seconds <N>': expected a whole number",
        );
        check("evenkeel tune explain nothing", "64 there is no rule `nothing`");
    }

    #[test]
    fn what_only_the_program_itself_starts_has_no_page_and_no_line_of_help() {
        let pages = pages();
        assert!(pages.contains(&"tune-check".to_owned()) && pages.contains(&"lab-run".to_owned()));
        for hidden in ["tune-watch-over", "lab-inside"] {
            assert!(!pages.iter().any(|page| page == hidden), "{hidden}");
        }
        let help = command(100).render_help().to_string();
        assert!(!help.contains("Command line of"), "{help}");
    }

    #[test]
    fn completions_know_the_names_of_strategies_and_profiles() {
        let script = String::from_utf8(completions(Shell::Bash)).expect("a script is text");
        for name in ["rps-rfs", "irq0-rps", "memcached mysql"] {
            assert!(script.contains(name), "{name}");
        }
    }

    #[test]
    fn an_unknown_argument_has_a_hint() {
        let check = |line: &str, wanted: &str| {
            let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let failure = run(&typed).expect_err(line);
            assert_eq!(failure.help(), Some(wanted), "{line}");
        };
        check("evenkeel sevre", "did you mean `serve`?");
        check("evenkeel frobnicate", "`evenkeel --help` says what is accepted");
        check("evenkeel serve --memroy 1", "did you mean `--memory-limit`?");
        check("evenkeel serve --frobnicate", "`evenkeel serve --help` lists the flags");
        check("evenkeel load --depht 1", "did you mean `--depth`?");
        check("evenkeel load -o x", "`evenkeel load --help` says what is accepted");
        check("evenkeel load stray", "`evenkeel load --help` says what is accepted");
        check("evenkeel load --protocol mta", "did you mean `meta`?");
        check("evenkeel load --depth x", "`evenkeel load --help` says what is accepted");
        check("evenkeel tune chekc", "did you mean `check`?");
        check("evenkeel tune check --jsn", "did you mean `--json`?");
        check("evenkeel tune check --frobnicate", "`evenkeel tune check --help` says what is accepted");
        check("evenkeel lab run", "`evenkeel lab run --help` says what is accepted");
        check("evenkeel lab run x --frobnicate", "`evenkeel lab run --help` says what is accepted");
    }

    #[test]
    fn an_invalid_run_fails_with_strict() {
        let line = |server: &std::net::TcpListener| {
            let address = server.local_addr().expect("an address");
            format!(
                "evenkeel load --server {address} --rate 1000 --connections 2 --duration 100ms --warm-up 0"
            )
        };
        let bind = || std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        // Its connections are never accepted: nothing is answered.
        let silent = bind();
        check(&line(&silent), "1 requests had no reply, or connections failed: see above");
        // The first request of each connection is answered, and no other one.
        let tired = bind();
        let line = line(&tired);
        std::thread::spawn(move || {
            let answer = |mut stream: std::net::TcpStream| {
                Read::read(&mut stream, &mut [0; 4096]).ok()?;
                Write::write_all(&mut stream, b"END\r\n").ok().map(|()| stream)
            };
            let _kept: Vec<_> = tired.incoming().map_while(Result::ok).filter_map(answer).collect();
        });
        let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        assert!(run(&typed).is_ok(), "{line}");
        check(&format!("{line} --strict"), "75 the result is INVALID (--strict): see above");
        check(
            "evenkeel load --strict --self-test",
            "64 the argument '--strict' cannot be used with '--self-test'",
        );
    }

    #[test]
    fn completions_have_verbs_and_flags() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completions(shell)).expect("scripts are text");
            for word in
                ["serve", "load", "memory-limit", "max-reqs-per-event", "driver", "explain", "fail-on"]
            {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn completions_have_the_sub_options_and_their_meanings() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completions(shell)).expect("scripts are text");
            assert!(script.contains("idle_timeout=") && script.contains("no_maxconns_fast"), "{shell}");
            assert!(!script.contains("proxy_config"), "{shell}: it would be refused");
            let meaning = "Close a connection that was silent for so long";
            assert_eq!(script.contains(meaning), shell != Shell::Bash, "{shell}");
        }
    }
}
