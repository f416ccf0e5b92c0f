//! Subjects: started for one trial, ready before its time counts, ended after it.

pub(crate) mod standing;

use crate::error::Error;
use crate::experiment::placeholders::Placeholders;
use crate::experiment::{Ready, Subject};
use crate::trial::halt::Halt;
use crate::trial::log::LogSearch;
use crate::trial::process::{Group, ShellCommand};
use os::clock::Stopwatch;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The interval of checks whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The time limit of one attempt to connect, or of one command.
const ASK_TIME_MAX: Duration = Duration::from_secs(5);

/// The name of a subject in error messages.
pub(crate) fn place(subject: &Subject, key: &str) -> String {
    format!("subject {:?}: {key}", subject.name)
}

/// Ports that a subject has.
pub(crate) const PORTS: usize = 6;

/// The port of a subject, its own or any, and further ones: all are free.
pub(crate) fn ports(subject: &Subject) -> Result<[u16; PORTS], Error> {
    // Together, so that none is there twice.
    let mut listeners = vec![own_port(subject)?];
    let failed = |error| Error::place(place(subject, "port"), format!("find a free port: {error}"));
    while listeners.len() < PORTS {
        listeners.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?);
    }
    let mut ports = [0; PORTS];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr().map_err(failed)?.port();
    }
    Ok(ports)
}

/// The port of a subject: its own, which must be free, or any that is.
fn own_port(subject: &Subject) -> Result<TcpListener, Error> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, subject.port.unwrap_or(0)));
    let taken = |error: std::io::Error| match (subject.port, error.kind()) {
        (Some(port), std::io::ErrorKind::AddrInUse) => {
            let what = format!("port {port} of 127.0.0.1 is in use by another program");
            Error::place(place(subject, "port"), what)
        }
        _ => Error::place(place(subject, "port"), format!("find a free port: {error}")),
    };
    // A listener on all addresses does not prevent a bind, so check in both ways.
    if subject.port.is_some() && TcpStream::connect_timeout(&wanted, ASK_TIME_MAX).is_ok() {
        return Err(taken(std::io::ErrorKind::AddrInUse.into()));
    }
    TcpListener::bind(wanted).map_err(taken)
}

/// Starts it and waits until it is ready. `line` is its environment and directories, `text` its start with all names
/// filled in.
pub(crate) fn start(
    subject: &Subject,
    line: &ShellCommand,
    placeholders: &Placeholders,
    port: u16,
    halt: &Halt,
) -> Result<Group, Error> {
    let log_before = std::fs::metadata(&line.log).map_or(0, |log| log.len());
    let wanted = if let Ready::Line(wanted) = &subject.ready { wanted } else { "" };
    let mut search = LogSearch::from(log_before, wanted);
    let mut group = line.start()?;
    let limit = Duration::from_secs(subject.ready_within_s.into());
    let clock = Stopwatch::start();
    loop {
        if let Some(status) = group.ended()? {
            return Err(group.complaint(&format!("it ended with {status} before it was ready")));
        }
        if is_ready(subject, line, placeholders, port, &mut search, halt)? {
            return Ok(group);
        }
        if clock.passed() >= limit {
            let what =
                format!("it is not ready after {} s ({})", subject.ready_within_s, waited_for(subject, port));
            return Err(group.complaint(&what));
        }
        halt.pause(ASK_EVERY)?;
    }
}

fn is_ready(
    subject: &Subject,
    line: &ShellCommand,
    placeholders: &Placeholders,
    port: u16,
    search: &mut LogSearch<'_>,
    halt: &Halt,
) -> Result<bool, Error> {
    match &subject.ready {
        Ready::Port => {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            Ok(TcpStream::connect_timeout(&address, ASK_TIME_MAX).is_ok())
        }
        Ready::Command(text) => {
            let place = place(subject, "ready.command");
            let text = placeholders.fill(text, &place)?;
            // Error messages of checks while the subject is not ready are not kept.
            let asking = ShellCommand {
                text: &text,
                place: &place,
                log: "/dev/null".into(),
                placement: None,
                ..line.clone()
            };
            let status = asking.start()?.wait(halt, ASK_TIME_MAX)?;
            Ok(status.is_some_and(|status| status.success()))
        }
        Ready::Line(_) => search.finds(&line.log),
    }
}

fn waited_for(subject: &Subject, port: u16) -> String {
    match &subject.ready {
        Ready::Port => format!("no process accepts connections at 127.0.0.1:{port}"),
        Ready::Command(_) => "the command ready.command does not succeed".to_owned(),
        Ready::Line(wanted) => format!("its log has no line with {wanted:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::trial::leftovers::Mark;
    use std::collections::BTreeMap;

    fn subject(start: &str, ready: Ready) -> Subject {
        Subject { name: "a".into(), start: start.into(), ready, ready_within_s: 60, ..Subject::default() }
    }

    fn started(subject: &Subject, name: &str) -> Result<Group, Error> {
        let scratch = Scratch::new(name);
        let (log, env) = (scratch.path().join("log"), BTreeMap::new());
        let (place, halt) = (place(subject, "start"), Halt::default());
        let line = ShellCommand {
            text: &subject.start,
            place: &place,
            env: &env,
            mark: &Mark::new("subject-test", scratch.path().join("groups")),
            log,
            output: None,
            placement: None,
        };
        start(subject, &line, &Placeholders::default(), ports(subject)?[0], &halt)
    }

    #[test]
    fn a_line_of_its_log_or_a_command_says_that_it_is_ready() {
        started(
            &subject("echo ready for connections; exec sleep 1000", Ready::Line("ready for".into())),
            "line",
        )
        .expect("it says so");
        started(&subject("exec sleep 1000", Ready::Command("true".into())), "command")
            .expect("it is said so");
    }

    #[track_caller]
    fn fails(subject: &Subject, name: &str, expected: &str) {
        let error = started(subject, name).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn one_that_does_not_start_is_said_with_its_last_words() {
        let ends = subject("echo no such table >&2; exit 7", Ready::Port);
        fails(
            &ends,
            "ends",
            "subject \"a\": start: it ended with exit status: 7 before it was ready: no such table",
        );
        let silent =
            Subject { ready_within_s: 0, ..subject("exec sleep 1000", Ready::Command("false".into())) };
        fails(
            &silent,
            "silent",
            "not ready after 0 s (the command ready.command does not succeed) (its log is empty",
        );
        let mute = Subject { ready_within_s: 0, ..subject("exec sleep 1000", Ready::Line("up".into())) };
        fails(&mute, "mute", "its log has no line with \"up\"");
    }

    #[test]
    fn ports_of_a_subject_are_distinct() {
        let ports = ports(&subject("exec sleep 1000", Ready::Port)).expect("there are free ones");
        let distinct: std::collections::BTreeSet<u16> = ports.into_iter().collect();
        assert!(distinct.len() == PORTS && !distinct.contains(&0), "{ports:?}");
    }

    #[test]
    fn a_port_in_use_is_said() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let subject = Subject { port: Some(port), ..subject("exec sleep 1000", Ready::Port) };
        fails(
            &subject,
            "port",
            &format!("subject \"a\": port: port {port} of 127.0.0.1 is in use by another program"),
        );
    }
}
