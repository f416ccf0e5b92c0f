//! Tests of the comparison with a fake server that answers from a list.

use super::*;

/// Answers each send with the next of its lines; `!` closes.
struct ListedAnswers {
    answers: Vec<&'static str>,
    pending: BTreeMap<usize, Vec<u8>>,
    closed: bool,
    sent: Vec<String>,
}

impl Peer for ListedAnswers {
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), String> {
        self.sent.push(format!("{connection}:{}", bytes.escape_ascii()));
        if !self.answers.is_empty() {
            let answer = self.answers.remove(0);
            self.closed |= answer.ends_with('!');
            self.pending.entry(connection).or_default().extend(answer.trim_end_matches('!').bytes());
        }
        Ok(())
    }

    fn receive(&mut self, connection: usize, received: &mut Vec<u8>) -> Result<ReceivedOutput, String> {
        let pending = std::mem::take(self.pending.entry(connection).or_default());
        received.extend_from_slice(&pending);
        Ok(match pending.is_empty() {
            false => ReceivedOutput::Some,
            true if self.closed => ReceivedOutput::Closed,
            true => ReceivedOutput::Nothing,
        })
    }

    fn close(&mut self, _: usize) -> Result<(), String> {
        self.closed = true;
        Ok(())
    }

    fn advance(&mut self, seconds: u32) -> Result<(), String> {
        self.sent.push(format!("advance {seconds}"));
        Ok(())
    }

    fn unix_time(&self) -> u64 {
        1_000
    }
}

fn play(text: &str, answers: &[&'static str]) -> (Result<(), Mismatch>, Vec<String>) {
    let transcript = Transcript::parse("t", text).expect("a transcript");
    let mut peer = ListedAnswers {
        answers: answers.to_vec(),
        pending: BTreeMap::new(),
        closed: false,
        sent: Vec::new(),
    };
    (run(&transcript, &mut peer), peer.sent)
}

#[track_caller]
fn holds(text: &str, answers: &[&'static str]) {
    assert_eq!(play(text, answers).0, Ok(()));
}

#[track_caller]
fn fails(text: &str, answers: &[&'static str], expected: &str) {
    let failure = play(text, answers).0.expect_err("a difference");
    assert_eq!(failure.to_string().replace("\n    ", " "), expected);
}

#[test]
fn a_server_with_the_expected_answers_passes() {
    holds("> get a\n< VALUE a 0 1\n< x\n< END", &["VALUE a 0 1\r\nx\r\nEND\r\n"]);
    holds("> quit\n<closed", &["!"]);
    holds("> gets a\n< <cas:1>\n> again\n< <cas:1>", &["5\r\n", "5\r\n"]);
    holds(
        "> stats\n<+ STAT b <number>\n<+ STAT a <number>\n< END",
        &["STAT a 1\r\nSTAT b 2\r\nSTAT c 3\r\nEND\r\n"],
    );
    holds("> dump\n<= mg b\n<= mg a\n< EN", &["mg a\r\nmg b\r\nEN\r\n"]);
}

#[test]
fn the_first_difference_is_named_with_its_line() {
    fails("> a\n< OK", &["ERROR\r\n"], r#"t.txt:2: expected "OK" got "ERROR\r\n""#);
    fails("> a\n< OK", &["OK"], r#"t.txt:2: expected "OK" got only "OK""#);
    fails("> a\n< OK", &["!"], r#"t.txt:2: expected "OK" got nothing and a closed connection"#);
    fails(
        "> a\n<closed",
        &[""],
        "t.txt:2: expected nothing more, and the end of the connection got an open connection",
    );
    fails("> a\n<+ x\n< END", &["END\r\n"], r#"t.txt:3: expected x got the end, "END\r\n""#);
    fails("> a\n<= x\n< END", &["y\r\nx\r\nEND\r\n"], r#"t.txt:3: expected x got "y\r\n""#);
}

#[test]
fn unexpected_output_is_a_difference() {
    fails(
        "> a noreply",
        &["STORED\r\n"],
        r#"t.txt:1: expected nothing more, and the end of the connection got "STORED\r\n""#,
    );
}

#[test]
fn neighbouring_lines_of_a_connection_are_sent_in_one_piece() {
    let (_, sent) = play("> set a 0 0 1\n> x\n1> b\n# advance 3 s\n> c", &[]);
    assert_eq!(sent, [r"0:set a 0 0 1\r\nx\r\n", r"1:b\r\n", "advance 3", r"0:c\r\n"]);
}
