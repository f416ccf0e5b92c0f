//! Differences that servers may have, and why: the one place where it is declared.
//!
//! Two kinds of requests are not written at all. What `conversation` avoids says why there: faults of memcached that no
//! client can want. What no two servers say alike is left out here: `stats`, dumps, `watch`.

/// Output without what may differ, a line each.
pub(crate) fn comparable(output: &[u8]) -> String {
    let text = output.escape_ascii().to_string();
    text.split("\\r\\n").map(line).collect::<Vec<_>>().join("\n")
}

fn line(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        // Ours says which version it follows and its own.
        ["VERSION", _] => "VERSION".to_owned(),
        // CAS uniques: memcached counts changes, ours starts from the time of day (decision 17).
        ["VALUE", key, flags, len, _cas] => format!("VALUE {key} {flags} {len} #"),
        ["ME", key, ..] => format!("ME {key} {}", same_facts(&words[2..])),
        ["HD" | "VA" | "EX" | "NS" | "NF" | "EN", ..] => {
            words.iter().map(|word| hide_number(word)).collect::<Vec<_>>().join(" ")
        }
        _ => line.to_owned(),
    }
}

/// Of `me`: seconds pass (`la`, `exp`), CAS uniques are others, all items are in class 1 here, and `size` is what memcached
/// takes.
fn same_facts(facts: &[&str]) -> String {
    let differs =
        |fact: &&&str| ["la=", "exp=", "cas=", "cls=", "size="].iter().any(|name| fact.starts_with(name));
    facts.iter().filter(|fact| !differs(fact)).copied().collect::<Vec<_>>().join(" ")
}

/// CAS uniques are others; times (`t`, `l`) pass.
fn hide_number(word: &str) -> String {
    match word.split_at_checked(1) {
        Some((letter @ ("c" | "t" | "l"), digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{letter}#")
        }
        _ => word.to_owned(),
    }
}

#[test]
fn only_what_may_differ_is_hidden() {
    let check = |output: &str, expected: &str| assert_eq!(comparable(output.as_bytes()), expected);
    check("VALUE a 1 2 77\r\nxx\r\nEND\r\n", "VALUE a 1 2 #\nxx\nEND\n");
    check("VALUE a 1 2\r\n", "VALUE a 1 2\n");
    check("HD c5 t-1 s7 Oc5\r\n", "HD c# t-1 s7 Oc5\n");
    check("ME a exp=-1 la=0 cas=2 fetch=no cls=1 size=60 flags=0\r\n", "ME a fetch=no flags=0\n");
}
