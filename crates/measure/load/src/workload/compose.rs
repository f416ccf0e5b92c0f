//! Composer of requests: chooses the next command and its item.

use crate::types::description::CommandProtocol;
use crate::types::mix::{Command, Mix};
use crate::workload::chooser::Chooser;
use crate::workload::conversation::{Conversation, RequestKind};
use crate::workload::plan::RunPlan;
use crate::workload::recording::Recorder;
use crate::workload::replay::Replay;
use crate::workload::request::{Answer, Writer};
use std::collections::VecDeque;
use std::ops::Range;
use stdx::prng::Prng;

/// Composes one request after the other.
#[derive(Debug)]
pub(crate) struct Composer<'a> {
    writer: Writer<'a>,
    /// Whether conversations track the items of requests.
    track: bool,
    /// Items that a get did not find, to be stored.
    pub(crate) missed: VecDeque<u64>,
    /// Notes the requests, if the run is recorded.
    pub(crate) recorder: Option<Recorder>,
    source: Source<'a>,
}

/// The source of requests.
#[derive(Debug)]
enum Source<'a> {
    /// Commands about random items, without end.
    Mix { prng: Prng, chooser: &'a Chooser, mix: &'a Mix, multiget: usize },
    /// The requests of a trace, as far as they are due.
    Trace(Replay),
    /// One set for each item; numbers beyond the items are those of counters.
    Fill(Range<u64>),
}

impl<'a> Composer<'a> {
    /// The load of worker `index`: its own random numbers.
    pub(crate) fn mix(
        plan: &'a RunPlan,
        seed: u64,
        index: usize,
        recorder: Option<Recorder>,
    ) -> Composer<'a> {
        let prng = Prng::new(stdx::prng::mix(seed).wrapping_add(index as u64));
        let source =
            Source::Mix { prng, chooser: &plan.chooser, mix: &plan.asked.mix, multiget: plan.run.multiget };
        let writer = Writer::new(plan);
        Composer { writer, track: plan.tracks(), missed: VecDeque::new(), recorder, source }
    }

    /// The requests of probes: the same commands about other random items, and missed items are not stored.
    pub(crate) fn probe(plan: &'a RunPlan, seed: u64) -> Composer<'a> {
        Composer { track: plan.run.verify, ..Composer::mix(plan, seed, 0, None) }
    }

    /// The requests of a trace.
    pub(crate) fn replay(plan: &'a RunPlan, replay: Replay) -> Composer<'a> {
        let writer = Writer::new(plan);
        let source = Source::Trace(replay);
        Composer { writer, track: false, missed: VecDeque::new(), recorder: None, source }
    }

    /// Requests and replies are packets.
    pub(crate) fn speaks_packets(&self) -> bool {
        self.writer.protocol == CommandProtocol::Binary
    }

    /// The trace, if it is the source of requests.
    pub(crate) fn trace(&mut self) -> Option<&mut Replay> {
        match &mut self.source {
            Source::Trace(replay) => Some(replay),
            _ => None,
        }
    }

    /// Stores the items of `range` once.
    pub(crate) fn fill(plan: &'a RunPlan, range: Range<u64>) -> Composer<'a> {
        let writer = Writer::new(plan);
        let source = Source::Fill(range);
        Composer { writer, track: false, missed: VecDeque::new(), recorder: None, source }
    }

    /// When the latest request was to be sent, for a recording.
    #[inline]
    pub(crate) fn asked(&mut self, at_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.asked(at_ns);
        }
    }

    /// The next request that is due is not sent.
    pub(crate) fn leave_out(&mut self) {
        if let Source::Trace(replay) = &mut self.source {
            replay.take();
        }
    }

    /// Appends a set of an item that was missed, or whose set was lost; `false` when there is none.
    #[inline]
    pub(crate) fn refill(&mut self, out: &mut Vec<u8>, conversation: &mut Conversation) -> bool {
        let Some(item) = self.missed.pop_front() else { return false };
        let writer = Writer { number: conversation.next_number(), ..self.writer };
        if matches!(self.source, Source::Fill(_)) {
            writer.fill(item, out);
            conversation.expect_stored(RequestKind::Refill(self.writer.protocol), item);
            return true;
        }
        writer.change(Command::Set, item, out);
        if let Some(recorder) = &mut self.recorder {
            recorder.note(Command::Set, item);
        }
        conversation.expect(RequestKind::Refill(self.writer.protocol));
        true
    }

    /// Appends the next request to `out` and tells `conversation` which reply to expect; `false` when there is none.
    #[inline]
    pub(crate) fn compose(&mut self, out: &mut Vec<u8>, conversation: &mut Conversation) -> bool {
        let Composer { writer, track, recorder, source, .. } = self;
        let writer = Writer { number: conversation.next_number(), ..*writer };
        let protocol = writer.protocol;
        match source {
            Source::Fill(range) => {
                let Some(item) = range.next() else { return false };
                writer.fill(item, out);
                conversation.expect_stored(RequestKind::Change(Command::Set, protocol), item);
            }
            Source::Trace(replay) => {
                let Some(record) = replay.take() else { return false };
                writer.traced(&record, out);
                let command = record.command;
                match protocol {
                    CommandProtocol::Text if command.is_get() => {
                        conversation.expect_value(RequestKind::Get { command, keys: 1 }, &record.key);
                    }
                    CommandProtocol::Meta if command.is_get() => {
                        conversation.expect(RequestKind::MetaGet(command));
                    }
                    CommandProtocol::Binary if command.is_get() => {
                        conversation.expect(RequestKind::PacketGet(command));
                    }
                    _ => conversation.expect(RequestKind::Change(command, protocol)),
                }
            }
            Source::Mix { prng, chooser, mix, multiget } => {
                let command = mix.choose(prng);
                if !command.is_get() {
                    let item = chooser.choose(prng);
                    writer.change(command, item, out);
                    if let Some(recorder) = recorder {
                        recorder.note(command, item);
                    }
                    conversation.expect(RequestKind::Change(command, protocol));
                    return true;
                }
                let chosen = (0..*multiget).map(|_| chooser.choose(prng));
                let chosen = chosen.inspect(|&item| {
                    if *track {
                        conversation.expect_item(item);
                    }
                    if let Some(recorder) = recorder {
                        recorder.note(command, item);
                    }
                });
                let start = out.len();
                writer.get(command, chosen, Answer { several: *multiget > 1, keyed: *track }, out);
                let keys = *multiget as u32;
                match protocol {
                    CommandProtocol::Text if keys == 1 && !*track => {
                        let key = &out[start + command.name().len() + 1..out.len() - LINE_END_LEN];
                        conversation.expect_value(RequestKind::Get { command, keys }, key);
                    }
                    CommandProtocol::Text => conversation.expect(RequestKind::Get { command, keys }),
                    CommandProtocol::Meta if keys == 1 => conversation.expect(RequestKind::MetaGet(command)),
                    CommandProtocol::Meta => conversation.expect(RequestKind::MetaGets { command, keys }),
                    CommandProtocol::Binary if keys == 1 => {
                        conversation.expect(RequestKind::PacketGet(command));
                    }
                    CommandProtocol::Binary => {
                        conversation.expect(RequestKind::PacketGets { command, keys });
                    }
                }
            }
        }
        true
    }
}

const LINE_END_LEN: usize = b"\r\n".len();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::description::Description;
    use crate::types::part::Part;

    fn plan(line: &str) -> RunPlan {
        let run = Description::of(line.split_ascii_whitespace()).expect(line);
        RunPlan::new(&run, Part::WHOLE).expect(line)
    }

    /// The first two requests of a run.
    fn check(line: &str, expected: &str) {
        let plan = plan(line);
        let (mut out, mut conversation) = (Vec::new(), Conversation::default());
        let mut composer = Composer::mix(&plan, 1, 0, None);
        assert!((0..2).all(|_| composer.compose(&mut out, &mut conversation)));
        assert_eq!(out.escape_ascii().to_string(), expected, "{line}");
        assert_eq!(conversation.outstanding(), 2);
    }

    #[test]
    fn requests_are_those_of_the_protocol() {
        check("--keys 1", r"get key:0000000000\r\nget key:0000000000\r\n");
        check("--keys 1 --key-size 5 --multiget 2", r"get key:0 key:0\r\nget key:0 key:0\r\n");
        let value = "lXwCQ0hFRM6J";
        check(
            "--keys 1 --key-size 1 --value-size 12 --gets 0",
            &format!(r"set 0 0 0 12\r\n{value}\r\nset 0 0 0 12\r\n{value}\r\n"),
        );
        check(
            "--keys 1 --key-size 1 --value-size 12 --gets 0 --protocol meta",
            &format!(r"ms 0 12\r\n{value}\r\nms 0 12\r\n{value}\r\n"),
        );
        for (command, text, meta) in [
            ("gets", "gets key:0", "mg key:0 v c"),
            ("add", "add key:0 0 60 3\r\nlXw", "ms key:0 3 ME T60\r\nlXw"),
            ("replace", "replace key:0 0 60 3\r\nlXw", "ms key:0 3 MR T60\r\nlXw"),
            ("append", "append key:0 0 60 3\r\nlXw", "ms key:0 3 MA T60\r\nlXw"),
            ("prepend", "prepend key:0 0 60 3\r\nlXw", "ms key:0 3 MP T60\r\nlXw"),
            ("set", "set key:0 0 60 3\r\nlXw", "ms key:0 3 T60\r\nlXw"),
            ("delete", "delete key:0", "md key:0"),
            ("incr", "incr num:0 1", "ma num:0"),
            ("decr", "decr num:0 1", "ma num:0 MD"),
            ("touch", "touch key:0 60", "mg key:0 T60"),
        ] {
            for (protocol, request) in [("text", text), ("meta", meta)] {
                let line = format!(
                    "--keys 1 --key-size 5 --value-size 3 --ttl 60 --mix {command}=1 --protocol {protocol}"
                );
                check(&line, &format!("{request}\r\n{request}\r\n").escape_default().to_string());
            }
        }
        check("--keys 1 --key-size 1 --protocol meta", r"mg 0 v\r\nmg 0 v\r\n");
        check("--keys 1 --key-size 1 --protocol meta --verify", r"mg 0 v k\r\nmg 0 v k\r\n");
        let two = r"mg 0 v q\r\nmg 0 v q\r\nmn\r\n";
        check("--keys 1 --key-size 1 --protocol meta --multiget 2", &format!("{two}{two}"));
    }

    /// The opcodes, numbers and bodies of the first two requests in packets.
    fn check_packets(line: &str, expected: &str) {
        let plan = plan(&format!("--keys 1 --key-size 5 --value-size 3 --ttl 60 --protocol binary {line}"));
        let (mut out, mut conversation) = (Vec::new(), Conversation::default());
        let mut composer = Composer::mix(&plan, 1, 0, None);
        assert!((0..2).all(|_| composer.compose(&mut out, &mut conversation)));
        let (mut shown, mut rest) = (String::new(), &out[..]);
        while let Some((header, after)) = rest.split_first_chunk::<24>() {
            assert_eq!((header[0], usize::from(header[5])), (0x80, 0), "{line}");
            let len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
            let (body, after) = after.split_at(len);
            let (extras, body) = body.split_at(usize::from(header[4]));
            let extras: String = extras.iter().map(|byte| format!("{byte:02x}")).collect();
            shown += &format!("{:02x}#{} {extras} {};", header[1], header[15], body.escape_ascii());
            rest = after;
        }
        assert_eq!(shown, expected, "{line}");
    }

    #[test]
    fn requests_in_packets_have_numbers() {
        check_packets("", "00#0  key:0;00#1  key:0;");
        check_packets("--verify", "0c#0  key:0;0c#1  key:0;");
        check_packets("--multiget 2", "09#0  key:0;09#0  key:0;0a#0  ;09#1  key:0;09#1  key:0;0a#1  ;");
        for (command, opcode, extras, body) in [
            ("gets", "00", "", "key:0"),
            ("set", "01", "000000000000003c", "key:0lXw"),
            ("add", "02", "000000000000003c", "key:0lXw"),
            ("replace", "03", "000000000000003c", "key:0lXw"),
            ("append", "0e", "", "key:0lXw"),
            ("prepend", "0f", "", "key:0lXw"),
            ("delete", "04", "", "key:0"),
            ("incr", "05", "00000000000000010000000000000000ffffffff", "num:0"),
            ("decr", "06", "00000000000000010000000000000000ffffffff", "num:0"),
            ("touch", "1c", "0000003c", "key:0"),
        ] {
            let expected = format!("{opcode}#0 {extras} {body};{opcode}#1 {extras} {body};");
            check_packets(&format!("--mix {command}=1"), &expected);
        }
    }

    #[test]
    fn a_fill_stores_every_item_of_its_range_once() {
        let plan = plan("--keys 9 --key-size 1 --value-size 0");
        let (mut out, mut conversation) = (Vec::new(), Conversation::default());
        let mut composer = Composer::fill(&plan, 4..7);
        while composer.compose(&mut out, &mut conversation) {}
        let expected = r"set 4 0 0 0\r\n\r\nset 5 0 0 0\r\n\r\nset 6 0 0 0\r\n\r\n";
        assert_eq!(out.escape_ascii().to_string(), expected);
    }

    #[test]
    fn a_fill_goes_on_with_counters() {
        for (protocol, expected) in [
            ("text", r"set key:1 0 9 0\r\n\r\nset num:0 0 9 1\r\n0\r\n"),
            ("meta", r"ms key:1 0 T9\r\n\r\nms num:0 1 T9\r\n0\r\n"),
        ] {
            let plan = plan(&format!(
                "--keys 2 --key-size 5 --value-size 0 --ttl 9 --mix get=1,incr=1 --protocol {protocol}"
            ));
            assert_eq!(plan.fills(), 4);
            let (mut out, mut conversation) = (Vec::new(), Conversation::default());
            let mut composer = Composer::fill(&plan, 1..3);
            while composer.compose(&mut out, &mut conversation) {}
            assert_eq!(out.escape_ascii().to_string(), expected);
        }
    }

    #[test]
    fn a_seed_says_all_and_workers_differ() {
        let plan = plan("--gets 0.5 --popularity zipf:0.9 --multiget 3");
        let bytes = |seed, index| {
            let (mut out, mut conversation) = (Vec::new(), Conversation::default());
            let mut composer = Composer::mix(&plan, seed, index, None);
            (0..50).for_each(|_| assert!(composer.compose(&mut out, &mut conversation)));
            out
        };
        assert_eq!(bytes(1, 0), bytes(1, 0));
        assert!(bytes(1, 0) != bytes(2, 0) && bytes(1, 0) != bytes(1, 1));
    }
}
