//! Writes requests: which item, which command, which bytes.

use crate::arguments::Protocol;
use crate::conversation::{Conversation, Kind};
use crate::plan::{Items, Plan};
use crate::popularity::Chooser;
use std::ops::Range;
use stdx::prng::Prng;

/// Composes one request after the other.
#[derive(Debug)]
pub(crate) struct Composer<'a> {
    items: &'a Items,
    protocol: Protocol,
    verify: bool,
    source: Source<'a>,
}

/// What the requests are about.
#[derive(Debug)]
enum Source<'a> {
    /// Gets and sets of random items, without end.
    Mix { prng: Prng, chooser: &'a Chooser, gets: f64, multiget: usize },
    /// One set for each item.
    Fill(Range<u64>),
}

impl<'a> Composer<'a> {
    /// The load of worker `index`: its own random numbers.
    pub(crate) fn mix(plan: &'a Plan, seed: u64, index: usize) -> Composer<'a> {
        let prng = Prng::new(stdx::prng::mix(seed).wrapping_add(index as u64));
        let source = Source::Mix { prng, chooser: &plan.chooser, gets: plan.gets, multiget: plan.multiget };
        Composer { items: &plan.items, protocol: plan.protocol, verify: plan.verify, source }
    }

    /// Stores the items of `range` once.
    pub(crate) fn fill(plan: &'a Plan, range: Range<u64>) -> Composer<'a> {
        Composer { items: &plan.items, protocol: plan.protocol, verify: false, source: Source::Fill(range) }
    }

    /// Appends the next request to `out` and tells `conversation` what to expect; `false` when there is none.
    #[inline]
    pub(crate) fn compose(&mut self, out: &mut Vec<u8>, conversation: &mut Conversation) -> bool {
        let Composer { items, protocol, verify, source } = self;
        match source {
            Source::Fill(range) => match range.next() {
                Some(item) => set(items, *protocol, item, out, conversation),
                None => return false,
            },
            Source::Mix { prng, chooser, gets, multiget } => {
                if *gets < 1.0 && prng.unit() >= *gets {
                    set(items, *protocol, chooser.choose(prng), out, conversation);
                    return true;
                }
                let chosen = (0..*multiget).map(|_| chooser.choose(prng));
                let chosen = chosen.inspect(|&item| {
                    if *verify {
                        conversation.expect_item(item);
                    }
                });
                match protocol {
                    Protocol::Text => get(items, chosen, out),
                    Protocol::Meta => meta_get(items, chosen, *multiget > 1, *verify, out),
                }
                let keys = *multiget as u32;
                conversation.expect(match protocol {
                    Protocol::Text => Kind::Get { keys },
                    Protocol::Meta if keys == 1 => Kind::MetaGet,
                    Protocol::Meta => Kind::MetaGets { keys },
                });
            }
        }
        true
    }
}

#[inline]
fn get(items: &Items, chosen: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"get");
    for item in chosen {
        out.push(b' ');
        items.keys.write(item, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Several keys are asked for quietly: misses are left out and `mn` marks the end. To verify, the key comes back.
#[inline]
fn meta_get(items: &Items, chosen: impl Iterator<Item = u64>, quiet: bool, verify: bool, out: &mut Vec<u8>) {
    let flags: &[u8] = match (quiet, verify) {
        (false, false) => b" v\r\n",
        (false, true) => b" v k\r\n",
        (true, false) => b" v q\r\n",
        (true, true) => b" v k q\r\n",
    };
    for item in chosen {
        out.extend_from_slice(b"mg ");
        items.keys.write(item, out);
        out.extend_from_slice(flags);
    }
    if quiet {
        out.extend_from_slice(b"mn\r\n");
    }
}

#[inline]
fn set(items: &Items, protocol: Protocol, item: u64, out: &mut Vec<u8>, conversation: &mut Conversation) {
    let (command, middle): (&[u8], &[u8]) = match protocol {
        Protocol::Text => (b"set ", b" 0 0 "),
        Protocol::Meta => (b"ms ", b" "),
    };
    out.extend_from_slice(command);
    items.keys.write(item, out);
    out.extend_from_slice(middle);
    write_number(items.values.size(item), out);
    out.extend_from_slice(b"\r\n");
    items.values.write(item, out);
    out.extend_from_slice(b"\r\n");
    conversation.expect(Kind::Set(protocol));
}

fn write_number(number: usize, out: &mut Vec<u8>) {
    if number >= 10 {
        write_number(number / 10, out);
    }
    out.push(b'0' + (number % 10) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn plan(line: &str) -> Plan {
        let words = std::iter::once("load").chain(line.split_ascii_whitespace());
        Plan::new(&Command::parse_from(words).arguments).expect(line)
    }

    /// The first two requests of a run.
    fn check(line: &str, expected: &str) {
        let plan = plan(line);
        let (mut out, mut conversation) = (Vec::new(), Conversation::default());
        let mut composer = Composer::mix(&plan, 1, 0);
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
        check("--keys 1 --key-size 1 --protocol meta", r"mg 0 v\r\nmg 0 v\r\n");
        check("--keys 1 --key-size 1 --protocol meta --verify", r"mg 0 v k\r\nmg 0 v k\r\n");
        let two = r"mg 0 v q\r\nmg 0 v q\r\nmn\r\n";
        check("--keys 1 --key-size 1 --protocol meta --multiget 2", &format!("{two}{two}"));
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
    fn a_seed_says_all_and_workers_differ() {
        let plan = plan("--gets 0.5 --popularity zipf:0.9 --multiget 3");
        let bytes = |seed, index| {
            let (mut out, mut conversation) = (Vec::new(), Conversation::default());
            let mut composer = Composer::mix(&plan, seed, index);
            (0..50).for_each(|_| assert!(composer.compose(&mut out, &mut conversation)));
            out
        };
        assert_eq!(bytes(1, 0), bytes(1, 0));
        assert!(bytes(1, 0) != bytes(2, 0) && bytes(1, 0) != bytes(1, 1));
    }
}
