//! Comparison of a server with all transcripts.

use crate::server::Server;
use crate::sockets::Sockets;
use crate::subject::ServerUnderTest;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;
use transcript::Transcript;

/// Transcripts that run at the same time: most of a slow one's time is waiting.
const AT_ONCE: usize = 8;

/// The longest delay of a conversation by a busy machine. A transcript counts the server's seconds: after a delay of
/// less than a second, the server's clock is still within what the transcript allows; after a longer one, a difference
/// proves nothing.
const DELAY_MAX: Duration = Duration::from_millis(900);

/// How often a delayed conversation is repeated before its outcome counts all the same.
const HELD_UP_MAX: usize = 5;

/// The result of a transcript.
#[derive(Debug, Default)]
pub struct TranscriptVerdict {
    /// Transcripts that held.
    pub held: usize,
    /// Transcripts that are left out, because this memcached is too old or they are about Evenkeel only.
    pub let_off: usize,
    /// The first difference of each transcript that did not hold.
    pub failures: Vec<String>,
}

impl fmt::Display for TranscriptVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        write!(f, "{} transcripts held, {} differed", self.held, self.failures.len())?;
        if self.let_off > 0 {
            write!(f, ", {} are about a later memcached or about Evenkeel only", self.let_off)?;
        }
        Ok(())
    }
}

/// Compares `subject` with `transcripts`, each with a process of its own.
pub fn judge(subject: &ServerUnderTest, transcripts: &[Transcript]) -> TranscriptVerdict {
    let due: Vec<Transcript> = transcripts
        .iter()
        .cloned()
        .map(|t| match subject.memcached {
            Some(version) => t.until(version),
            None => t,
        })
        .filter(|t| !t.steps.is_empty())
        .collect();
    let let_off = transcripts.len() - due.len();
    // The slow ones first: the others run while those wait.
    let (slow, quick): (Vec<_>, Vec<_>) = due.iter().partition(|t| t.slow);
    let queue = Mutex::new(quick.into_iter().chain(slow).collect::<Vec<&Transcript>>());
    let verdict = Mutex::new(TranscriptVerdict { let_off, ..TranscriptVerdict::default() });
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(transcript) = next(&queue) {
                    let outcome = play(subject, transcript);
                    let mut verdict = verdict.lock().expect("no panic under this lock");
                    match outcome {
                        Ok(()) => verdict.held += 1,
                        Err(failure) => verdict.failures.push(failure),
                    }
                }
            });
        }
    });
    let mut verdict = verdict.into_inner().expect("no panic under this lock");
    verdict.failures.sort();
    verdict
}

fn next<'t>(queue: &Mutex<Vec<&'t Transcript>>) -> Option<&'t Transcript> {
    queue.lock().expect("no panic under this lock").pop()
}

fn play(subject: &ServerUnderTest, transcript: &Transcript) -> Result<(), String> {
    let mut held_up = 0;
    let not_started = |error: anyhow::Error| format!("{}.txt: {error:#}", transcript.name);
    loop {
        let server = Server::start(subject, &transcript.flags).map_err(not_started)?;
        let router = subject.routed.then(|| router_before(&server)).transpose().map_err(not_started)?;
        let mut sockets = Sockets::new(router.as_ref().unwrap_or(&server), subject.tls);
        let Err(failure) = transcript::run(transcript, &mut sockets) else { return Ok(()) };
        // memcached's clock is a timer, which is late at times and then skips a second.
        let late = transcript.slow && subject.memcached.is_some();
        if held_up == HELD_UP_MAX || (sockets.delay() < DELAY_MAX && !late) {
            return Err(failure.to_string());
        }
        held_up += 1;
    }
}

/// A router to one server, which it gives a minute to answer: delays are this machine's.
fn router_before(server: &Server) -> anyhow::Result<Server> {
    let address = server.address();
    let configuration =
        format!(r#"{{"pools": {{"A": {{"servers": ["{address}"]}}}}, "route": "PoolRoute|A"}}"#);
    Server::start_router(&["--config", &configuration, "--enable-flush-cmd", "-t", "60000"])
}
