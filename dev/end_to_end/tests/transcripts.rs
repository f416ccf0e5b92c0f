//! The transcripts on three servers: Evenkeel with each driver, and a real memcached, which proves that the text is
//! right; Evenkeel also over TLS. memcached 1.6.45 agrees over TLS, too (`cargo run -p conformance -- transcripts --tls`).

use end_to_end::judge::judge;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use transcript::Transcript;

#[track_caller]
fn check(subject: &ServerUnderTest) {
    let transcripts = transcript::all();
    assert!(!transcripts.is_empty(), "no transcripts found");
    let verdict = judge(subject, &transcripts);
    assert!(verdict.failures.is_empty(), "{} differs:\n{verdict}", subject.name);
    println!("{}: {verdict}", subject.name);
}

#[test]
fn memcached_agrees_with_every_transcript() {
    check(&ServerUnderTest::memcached().expect("a memcached"));
}

#[test]
fn evenkeel_agrees_with_every_transcript_with_epoll() {
    check(&ServerUnderTest::evenkeel(SocketDriver::Epoll));
}

#[test]
fn evenkeel_agrees_with_every_transcript_with_io_uring() {
    check(&ServerUnderTest::evenkeel(SocketDriver::Uring));
}

/// All of them apply: what a transcript does to connections can be done to sessions, and an end that the server makes must have
/// close_notify. Requests in datagrams are compared in `server/tests/datagrams.rs`.
#[test]
fn evenkeel_agrees_with_every_transcript_over_tls_with_epoll() {
    check(&ServerUnderTest::evenkeel(SocketDriver::Epoll).over_tls());
}

#[test]
fn evenkeel_agrees_with_every_transcript_over_tls_with_io_uring() {
    check(&ServerUnderTest::evenkeel(SocketDriver::Uring).over_tls());
}

#[test]
fn memcached_is_not_compared_with_transcripts_for_evenkeel_only() {
    let transcript =
        Transcript::parse("ours", "# evenkeel only\n> version\n< VERSION 0").expect("a transcript");
    let verdict = judge(&ServerUnderTest::memcached().expect("a memcached"), &[transcript]);
    assert_eq!((verdict.held, verdict.let_off, verdict.failures.len()), (0, 1, 0), "{verdict}");
}

/// This test fails if the harness accepts everything.
#[test]
fn a_wrong_transcript_is_detected() {
    let lies = [
        "> set canary 0 0 1\n> x\n< STORED\n> get canary\n< VALUE canary 0 1\n< y\n< END",
        "> version\n<closed",
        "> set canary 0 0 1\n> x\n< STORED\n> version",
    ];
    let lies: Vec<Transcript> =
        lies.iter().map(|text| Transcript::parse("canary", text).expect("a transcript")).collect();
    let verdict = judge(&ServerUnderTest::memcached().expect("a memcached"), &lies);
    assert_eq!((verdict.held, verdict.failures.len()), (0, lies.len()), "{verdict}");
}
