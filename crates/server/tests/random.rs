//! Random conversations: what is said must not depend on where the input was cut, and is what memcached says.

mod conversation;

use conversation::Writer;
use net::sim::Pace;
use server::sim::{check, hear};

/// Conversations in an ordinary run; `EVENKEEL_TEST_SEEDS` asks for others, as `first..last`.
const SEEDS: std::ops::Range<u64> = 0..300;

/// Requests in one conversation.
const REQUESTS: usize = 40;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_TEST_SEEDS") else { return SEEDS };
    let (first, last) = text.split_once("..").expect("first..last");
    first.parse().expect("a number")..last.parse().expect("a number")
}

#[test]
fn the_cuts_of_a_conversation_are_not_heard() {
    for seed in seeds() {
        let mut writer = Writer::new(seed);
        let input = writer.requests(REQUESTS).concat();
        let whole = hear([&input[..]], Pace::default());
        for round in 0..4 {
            let mut pieces = Vec::new();
            let mut rest = &input[..];
            // Small pieces first, then larger ones.
            let most = [3, 40, 3000, 100_000][round];
            while !rest.is_empty() {
                let most = if pieces.len() > 2000 { 100_000 } else { most };
                let (piece, behind) = rest.split_at((1 + writer.below(most)).min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            let window = [usize::MAX, 1000, 100, 70_000][round];
            let pace = Pace { send_max: [usize::MAX, 7, 1000, 100_000][round], window, ..Pace::default() };
            let heard = hear(pieces, pace);
            assert!(
                heard == whole,
                "seed {seed}, round {round}: {}",
                difference(&heard.output, &whole.output)
            );
        }
    }
}

/// What `fuzz/` looks for without end, for a moment: bytes that are hardly requests any more.
#[test]
fn the_cuts_of_any_bytes_are_not_heard() {
    for seed in seeds() {
        let mut writer = Writer::new(seed);
        for _ in 0..3 {
            // Fifteen cuts.
            let mut input: Vec<u8> = (0..31).map(|_| writer.below(256) as u8).collect();
            input[0] |= 15;
            input.append(&mut writer.damaged(6).concat());
            check(&input);
        }
    }
}

/// Where two outputs part, with what is around it.
fn difference(one: &[u8], other: &[u8]) -> String {
    let at = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let (from, to) = (at.saturating_sub(200), bytes.len().min(at + 100));
        bytes[from.min(to)..to].escape_ascii().to_string()
    };
    format!("at byte {at}\n  {}\n  {}", around(one), around(other))
}

mod against_memcached {
    use super::*;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    /// A memcached of its own for each conversation.
    struct Memcached {
        child: Child,
        socket: PathBuf,
    }

    impl Memcached {
        fn start(program: &Path) -> Memcached {
            let socket = std::env::temp_dir().join(format!("evenkeel-random-{}.sock", std::process::id()));
            let _ = std::fs::remove_file(&socket);
            let mut command = Command::new(program);
            command.arg("-s").arg(&socket).args(["-u", "root", "-t", "1", "-U", "0"]);
            let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("start memcached");
            Memcached { child, socket }
        }

        fn hear(&mut self, input: &[u8]) -> Vec<u8> {
            let mut stream = loop {
                if let Ok(stream) = UnixStream::connect(&self.socket) {
                    break stream;
                }
                assert!(matches!(self.child.try_wait(), Ok(None)), "memcached has ended");
                std::thread::yield_now();
            };
            let mut output = Vec::new();
            let reader = stream.try_clone().expect("a second handle");
            std::thread::scope(|scope| {
                let reading = scope.spawn(|| {
                    // What it has said before it closes is all there is.
                    let _ = (&reader).read_to_end(&mut output);
                });
                let _ = stream.write_all(input);
                let _ = stream.shutdown(Shutdown::Write);
                reading.join().expect("no panic while reading");
            });
            output
        }
    }

    impl Drop for Memcached {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = std::fs::remove_file(&self.socket);
        }
    }

    #[test]
    fn a_conversation_is_what_it_is_with_memcached() {
        let Some(program) = std::env::var_os("EVENKEEL_TEST_MEMCACHED").map(PathBuf::from) else {
            println!("EVENKEEL_TEST_MEMCACHED names no memcached: nothing to compare with");
            return;
        };
        let mut differences = Vec::new();
        for seed in seeds() {
            let requests = Writer::new(seed).requests(REQUESTS);
            // Twice, because a second may pass in one server and not in the other.
            if differ(&program, &requests).is_some() && differ(&program, &requests).is_some() {
                let fewest = fewest(&program, requests);
                let difference = differ(&program, &fewest).unwrap_or_default();
                let input = fewest.concat().escape_ascii().to_string();
                differences.push(format!("seed {seed}: {}\n{difference}", &input[..input.len().min(600)]));
            }
            if differences.len() >= 20 {
                break;
            }
        }
        assert!(differences.is_empty(), "ours first:\n{}", differences.join("\n\n"));
    }

    /// How the two servers differ, if they do.
    fn differ(program: &Path, requests: &[Vec<u8>]) -> Option<String> {
        let mut input = requests.concat();
        // Enough to follow to end any value that has been announced: memcached says what is wrong with a request
        // after it has swallowed its value. Only where it matters, for it is long.
        for tail in [0, 300_000] {
            input.extend_from_slice(&b"mn\r\n".repeat(tail));
            let ours = comparable(&hear([&input[..]], Pace::default()).output);
            let theirs = comparable(&Memcached::start(program).hear(&input));
            match (ours == theirs, ours.starts_with(&theirs)) {
                (true, _) => return None,
                // Nor did this end it.
                (false, true) if tail == 0 || !ours.ends_with("MN\n") => {}
                _ => return Some(difference(ours.as_bytes(), theirs.as_bytes())),
            }
        }
        None
    }

    /// As few requests as show a difference.
    fn fewest(program: &Path, mut requests: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut at = 0;
        while at < requests.len() {
            let mut fewer = requests.clone();
            fewer.remove(at);
            if differ(program, &fewer).is_some() {
                requests = fewer;
            } else {
                at += 1;
            }
        }
        requests
    }

    /// Output without what may differ: CAS uniques, versions, times, sizes of items in memory.
    fn comparable(output: &[u8]) -> String {
        let text = output.escape_ascii().to_string();
        text.split("\\r\\n").map(line).collect::<Vec<_>>().join("\n")
    }

    fn line(line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["VERSION", _] => "VERSION".to_owned(),
            ["VALUE", key, flags, len, _cas] => format!("VALUE {key} {flags} {len} #"),
            ["ME", key, ..] => {
                let known = |word: &&&str| {
                    !["la=", "cas=", "cls=", "size="].iter().any(|name| word.starts_with(name))
                };
                let facts: Vec<&str> = words[2..].iter().filter(known).copied().collect();
                format!("ME {key} {}", facts.join(" "))
            }
            ["HD" | "VA" | "EX" | "NS" | "NF" | "EN", ..] => {
                words.iter().map(|word| hide_number(word)).collect::<Vec<_>>().join(" ")
            }
            _ => line.to_owned(),
        }
    }

    /// CAS uniques and times pass.
    fn hide_number(word: &str) -> String {
        match word.split_at_checked(1) {
            Some((letter @ ("c" | "t" | "l"), digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                format!("{letter}#")
            }
            _ => word.to_owned(),
        }
    }
}
