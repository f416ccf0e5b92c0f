//! Permitted differences of outputs, with reasons. Requests that are not sent at all are in the table `UNWRITTEN`, with
//! reasons.

use crate::conversation::unwritten::{Peer, What};

/// Output without the permitted differences from that of `peer`, line by line.
pub(crate) fn comparable(output: &[u8], peer: Peer) -> String {
    let text = output.escape_ascii().to_string();
    let has_words = peer.agrees_on(What::WrongWord);
    let is_error =
        |line: &str| ["ERROR", "CLIENT_ERROR", "SERVER_ERROR:"].iter().any(|it| line.starts_with(it));
    let said = |it| if !has_words && is_error(it) { "an error".to_owned() } else { line(it) };
    text.split("\\r\\n").map(said).collect::<Vec<_>>().join("\n")
}

fn line(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        // Evenkeel answers with the version that it follows and its own.
        ["VERSION", _] => "VERSION".to_owned(),
        // CAS uniques: memcached counts changes, Evenkeel starts from the time of day (decision 17).
        ["VALUE", key, flags, len, _cas] => format!("VALUE {key} {flags} {len} #"),
        ["ME", key, ..] => format!("ME {key} {}", same_facts(&words[2..])),
        ["HD" | "VA" | "EX" | "NS" | "NF" | "EN", ..] => {
            words.iter().map(|word| hide_number(word)).collect::<Vec<_>>().join(" ")
        }
        _ => line.to_owned(),
    }
}

/// In `me`, times pass (`la`, `exp`), CAS uniques differ, all items of Evenkeel are in class 1, and `size` is that of
/// memcached's item.
fn same_facts(facts: &[&str]) -> String {
    let differs =
        |fact: &&&str| ["la=", "exp=", "cas=", "cls=", "size="].iter().any(|name| fact.starts_with(name));
    facts.iter().filter(|fact| !differs(fact)).copied().collect::<Vec<_>>().join(" ")
}

/// CAS uniques differ; times (`t`, `l`) pass.
fn hide_number(word: &str) -> String {
    match word.split_at_checked(1) {
        Some((letter @ ("c" | "t" | "l"), digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{letter}#")
        }
        _ => word.to_owned(),
    }
}

#[test]
fn only_permitted_differences_are_hidden() {
    use crate::conversation::unwritten::FOLLOWED;
    let check =
        |output: &str, expected: &str| assert_eq!(comparable(output.as_bytes(), Peer(FOLLOWED)), expected);
    check("VALUE a 1 2 77\r\nxx\r\nEND\r\n", "VALUE a 1 2 #\nxx\nEND\n");
    check("VALUE a 1 2\r\n", "VALUE a 1 2\n");
    check("HD c5 t-1 s7 Oc5\r\n", "HD c# t-1 s7 Oc5\n");
    check("ME a exp=-1 la=0 cas=2 fetch=no cls=1 size=60 flags=0\r\n", "ME a fetch=no flags=0\n");
    check("CLIENT_ERROR invalid flag\r\n", "CLIENT_ERROR invalid flag\n");
    let older =
        comparable(b"CLIENT_ERROR invalid flag\r\nSERVER_ERROR object too large\r\nHD\r\n", Peer((1, 6, 18)));
    assert_eq!(older, "an error\nSERVER_ERROR object too large\nHD\n");
}
