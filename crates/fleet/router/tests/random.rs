//! A short run of what `dev/fuzz/` explores: configurations, clients and servers that hardly say what they should.
//!
//! All texts begin as those of the conversations in `testdata`, and are damaged.

use std::fs;
use std::path::Path;

use router::sim::{check_client, check_config, check_server};
use rustix::time::{ClockId, clock_gettime};
use stdx::prng::Prng;

/// Seeds of an ordinary run; `EVENKEEL_TEST_SEEDS` sets others, as `first..last`.
const SEEDS: std::ops::Range<u64> = 0..400;

/// CPU time for a configuration, in milliseconds. Macros that double themselves take 0.3 s in a release build until they are
/// refused.
const CONFIG_MS_MAX: i64 = 10_000;

/// CPU time of this thread.
fn cpu_time_ms() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_TEST_SEEDS") else { return SEEDS };
    let (first, last) = text.split_once("..").expect("first..last");
    first.parse().expect("a number")..last.parse().expect("a number")
}

/// Valid texts: of configurations, clients and servers.
#[derive(Default)]
struct Texts {
    configs: Vec<Vec<u8>>,
    clients: Vec<Vec<u8>>,
    servers: Vec<Vec<u8>>,
}

impl Texts {
    fn read() -> Texts {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/conversations");
        let mut files: Vec<_> =
            fs::read_dir(folder).expect("conversations").map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        let mut texts = Texts::default();
        for file in files {
            let text = fs::read_to_string(file).expect("text");
            let (head, script) = text.split_once("\n\n").expect("an empty line behind the route");
            let route = head.split_once('\n').expect("a comment and a route").1;
            let pools = ["A", "B", "C", "D"].map(|pool| format!(r#""{pool}": {{"servers": ["{pool}:1"]}}"#));
            let config = format!(r#"{{"pools": {{{}}}, "route": {route}}}"#, pools.join(", "));
            texts.configs.push(config.into_bytes());
            texts.clients.push(said(script, |sign| sign == ">"));
            texts.servers.push(said(script, |sign| sign.len() == 2 && sign.ends_with('<')));
        }
        texts.configs.push(MACROS.to_vec());
        texts.servers.push(ANSWERS.to_vec());
        texts.clients.push(COMMANDS.to_vec());
        texts
    }
}

/// What the lines with such a sign say. Those with a repeated text are left out.
fn said(script: &str, is_one: impl Fn(&str) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    for line in script.lines() {
        if let Some((sign, text)) = line.split_once(' ')
            && is_one(sign)
            && !text.contains('{')
        {
            out.extend_from_slice(text.replace("\\r\\n", "\r\n").as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}

/// Macros, comments and imports, which the conversations do not have.
const MACROS: &[u8] = br#"{ /* a comment */
  "macros": { "pool": { "type": "macroDef", "params": [ "name", { "name": "count", "default": 3 } ],
      "result": { "type": "transform", "dictionary": "@range(@int(1), @int(%count%))", "itemTransform": "%name%%item%:11211" } },
    "c": { "type": "constDef", "result": "x" } },
  "pools": { "A": { "servers": "@pool(%c%)" }, "B": "@import(1, @import(2))" }, // and another
  "named_handles": [ { "type": "FailoverRoute", "name": "both", "children": [ "PoolRoute|A", "PoolRoute|B" ] } ],
  "vars": { "v": { "type": "if", "condition": "@equals(a,%c%)", "is_true": "both", "is_false": "both" } },
  "route": "%v%" }
{ "servers": [ "b:1", "[::1]:2:ascii" ], "server_timeout": 100 }"#;

/// The replies that `check_server`'s client waits for.
const ANSWERS: &[u8] = b"VALUE a 0 1\r\nx\r\nEND\r\nVALUE b 1 2\r\nxy\r\nVALUE d 0 0\r\n\r\nVALUE b 1 2\r\nxy\r\nEND\r\n\
    VALUE e 0 1 77\r\nx\r\nEND\r\nEND\r\nSTORED\r\nEXISTS\r\nDELETED\r\n12\r\nTOUCHED\r\nVA 3 t-1 f0 c9 O11\r\nabc\r\n\
    VA 1 km O1\r\nx\r\nHD O2\r\nVA 1 O3\r\n5\r\nEND\r\nVA 1 O12\r\n7\r\n";

const COMMANDS: &[u8] = b"get abc key:1 key:3\r\nset abc 1 2 3\r\nxyz\r\nmg abc v q\r\nmg key:1 k q\r\nmn\r\nget k\r\nmg k v q\r\n\
    ms key:3 2 T0 I\r\nab\r\nmd a q\r\nma n N0 J1 v\r\nincr n 5 noreply\r\ntouch abc 10\r\ngats 10 abc key:1\r\n\
    set /././k 0 0 1 noreply\r\nx\r\ncas abc 0 0 1 5\r\nx\r\nversion\r\nme abc\r\nmg YWJj b v O77\r\nget aaaaaaaaaaaaaaaaaaaaaaaa1\r\n\
    gets aaaaaaaaaaaaaaaaaaaaaaaaaaa3 b\r\nflush_all\r\nverbosity 0\r\nstats\r\nappend abc 0 0 2\r\nab\r\ndelete key:1 noreply\r\n";

/// Words that mean something somewhere.
const WORDS: [&[u8]; 43] = [
    b"\r\n",
    b"\n",
    b" ",
    b"\0",
    b"get ",
    b"set k 0 0 ",
    b"VALUE k 0 ",
    b"END\r\n",
    b"VA 2 ",
    b"HD\r\n",
    b"EN\r\n",
    b" O1",
    b" q",
    b" k",
    b" noreply",
    b"20000",
    b"-1",
    b"4294967296",
    b"SERVER_ERROR 302 x\r\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"@",
    b"%",
    b"(",
    b")",
    b"\\",
    b"/*",
    b"*/",
    b"//",
    b"null",
    b"\"type\"",
    b"PoolRoute|A",
    b"|#|",
    b"/././",
    b"\xff\x80",
    b"\t",
    b"\r",
    b"      ",
];

/// A text, damaged in at most so many places, with pieces of others.
fn damaged(texts: &[Vec<u8>], places: u64, prng: &mut Prng) -> Vec<u8> {
    let pick = |prng: &mut Prng| &texts[prng.below(texts.len() as u64) as usize];
    let mut text = pick(prng).clone();
    for _ in 0..prng.below(places + 1) {
        let at = prng.below(text.len() as u64 + 1) as usize;
        let end = text.len().min(at + prng.below(30) as usize);
        match prng.below(7) {
            0 => drop(text.drain(at..end)),
            1 if prng.below(2) == 0 => text = renumbered(&text, prng),
            1 => {
                let piece = text[at..end].to_vec();
                text.splice(at..at, piece);
            }
            2 if at < text.len() => text[at] ^= 1 << prng.below(8),
            3 => {
                let other = pick(prng);
                let from = prng.below(other.len() as u64 + 1) as usize;
                let piece = other[from..other.len().min(from + prng.below(60) as usize)].to_vec();
                text.splice(at..end, piece);
            }
            4 => text.truncate(text.len().saturating_sub(prng.below(9) as usize)),
            5 => text.extend_from_slice(pick(prng)),
            _ => drop(text.splice(at..at, WORDS[prng.below(WORDS.len() as u64) as usize].to_vec())),
        }
    }
    text
}

/// With another number in place of each digit.
fn renumbered(text: &[u8], prng: &mut Prng) -> Vec<u8> {
    let digit = |byte: u8, prng: &mut Prng| b'0' + (u64::from(byte) + prng.below(3)) as u8 % 10;
    text.iter().map(|byte| if byte.is_ascii_digit() { digit(*byte, prng) } else { *byte }).collect()
}

/// With cuts and the number of a route in front, as the checks expect them.
fn with_cuts(text: Vec<u8>, prng: &mut Prng) -> Vec<u8> {
    let count = prng.below(16) as usize;
    let mut input = vec![count as u8 | (prng.below(16) as u8) << 4];
    input.extend((0..2 * count).map(|_| prng.below(256) as u8));
    input.extend(text);
    input
}

#[test]
fn any_configuration_makes_a_plan_or_an_error_with_its_place() {
    let texts = Texts::read();
    for seed in seeds() {
        let before = cpu_time_ms();
        check_config(&damaged(&texts.configs, 2, &mut Prng::new(seed)));
        let took = cpu_time_ms() - before;
        assert!(took <= CONFIG_MS_MAX, "seed {seed}: {took} ms");
    }
}

#[test]
fn whatever_a_client_sends_servers_get_its_requests_only() {
    let texts = Texts::read();
    for seed in seeds() {
        let mut prng = Prng::new(seed);
        let text = damaged(&texts.clients, 4, &mut prng);
        check_client(&with_cuts(text, &mut prng));
    }
}

#[test]
fn whatever_a_server_sends_clients_get_their_replies_in_order() {
    let texts = Texts::read();
    for seed in seeds() {
        let mut prng = Prng::new(seed);
        let text = damaged(&texts.servers, 4, &mut prng);
        check_server(&with_cuts(text, &mut prng));
    }
}
