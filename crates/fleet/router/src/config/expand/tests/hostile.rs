//! Broken and hostile configurations: none may run for minutes, fill the memory or overflow the stack.

use super::*;
use std::fmt::Write;

/// `count` definitions, each of which uses the one before it twice.
fn doubling(
    count: usize,
    kind: &str,
    body: impl Fn(&str) -> String,
    use_of: impl Fn(&str) -> String,
) -> String {
    let mut text = format!("{{ \"macros\": {{ \"m0\": {{ \"type\": \"{kind}\", \"result\": \"x\" }}");
    for n in 1..=count {
        let before = use_of(&format!("m{}", n - 1));
        write!(text, ", \"m{n}\": {{ \"type\": \"{kind}\", \"result\": {} }}", body(&before)).unwrap();
    }
    text + &format!("}}, \"a\": \"{}\" }}", use_of(&format!("m{count}")))
}

#[test]
fn macros_that_double_themselves_end_in_an_error() {
    let called = |name: &str| format!("@{name}");
    let named = |name: &str| format!("%{name}%");
    let list = |before: &str| format!("[ \"{before}\", \"{before}\" ]");
    let text = |before: &str| format!("\"{before}{before}\"");
    refused_with(
        &doubling(60, "macroDef", list, called),
        "steps of expansion, found more: do macros multiply",
    );
    refused_with(&doubling(60, "constDef", list, named), "steps of expansion, found more");
    refused_with(&doubling(60, "constDef", text, named), "expected at most 1048576 bytes of a string");
    let merged =
        |before: &str| format!("{{ \"type\": \"merge\", \"params\": [ \"{before}\", \"{before}\" ] }}");
    refused_with(&doubling(55, "macroDef", merged, called), "steps of expansion, found more");
    refused_with(&doubling(55, "constDef", merged, named), "bytes of a string");
}

#[test]
fn circles_end_in_an_error() {
    let macros = |a: &str, b: &str| {
        format!(
            "{{ \"macros\": {{ \"a\": {{ \"type\": \"{a}\", \"result\": \"{b}\" }}, \"b\": {{ \"type\": \"{a}\", \"result\": \"{}\" }} }}, \"x\": \"{b}\" }}",
            b.replace('b', "a")
        )
    };
    refused_with(&macros("macroDef", "@b"), "expected at most 249 macros and values in each other");
    refused_with(&macros("constDef", "%b%"), "refers to itself");
    refused_with(r#"{ "vars": { "a": "%b%", "b": "%a%" } }"#, "variable `a` refers to itself");
    refused_with(r#"{ "a": "@import(circle)" }"#, "import `circle` imports itself");
    refused_with(r#"{ "a": "@import(endless)" }"#, "import `endless` imports itself");
    refused_with(r#"{ "a": "@import(deep)" }"#, "expected at most 249 macros and values in each other");
    // The default of each level is tried: the outermost has one.
    assert_eq!(expand(r#"{ "a": "@import(deep, default)" }"#).unwrap().to_json(), r#"{"a":"default"}"#);
}

#[test]
fn values_do_not_grow_without_bound() {
    let process = |transform: &str| {
        format!(
            "{{ \"a\": {{ \"type\": \"process\", \"dictionary\": \"@range(@int(1), @int(100000))\", \"initialValue\": \"x\", \"transform\": {transform} }} }}"
        )
    };
    refused_with(&process(r#"[ "%value%" ]"#), "values in each other, found more");
    refused_with(&process(r#"{ "k": "%value%" }"#), "values in each other, found more");
    refused_with(&process(r#"[ "%value%", "%value%" ]"#), "found more");
    refused_with(&process(r#""%value%%value%""#), "bytes of a string");
    refused_with(
        &process(r#"{ "type": "merge", "params": [ [ "%value%" ], [ "%value%" ] ] }"#),
        "found more",
    );
}

#[test]
fn huge_ranges_are_refused_before_they_are_made() {
    for to in ["1000000000", "9223372036854775807"] {
        for from in ["1", "-9223372036854775808"] {
            refused_with(&format!("{{ \"a\": \"@range(@int({from}), @int({to}))\" }}"), "steps of expansion");
        }
    }
    assert_eq!(
        expand(r#"{ "a": "@range(@int(9223372036854775807), @int(-9223372036854775808))" }"#)
            .unwrap()
            .to_json(),
        r#"{"a":[]}"#
    );
    // Large ones that are allowed, cut and shuffled in every round of a loop.
    let text = r#"{ "vars": { "l": "@range(@int(1), @int(1000000))" },
        "a": { "type": "transform", "dictionary": "@range(@int(1), @int(1000))", "itemTransform": "@shuffle(@slice(%l%, @int(1), @int(999999)))" } }"#;
    refused_with(text, "steps of expansion");
}

#[test]
fn large_imports_are_refused() {
    refused_with(
        r#"{ "a": "@import(large)" }"#,
        "large:1: expected at most 16777216 bytes, found 16777217 bytes",
    );
    let text = r#"{ "a": [ "@import(huge1)", "@import(huge2)", "@import(huge3)", "@import(huge4)", "@import(huge5)" ] }"#;
    refused_with(text, "expected at most 67108864 bytes of imports");
}

#[test]
fn deep_nesting_is_refused_at_any_place() {
    let nested = |open: &str, close: &str, depth: usize| [open.repeat(depth), close.repeat(depth)].concat();
    refused_with(
        &format!("{{ \"a\": {} }}", nested("[", "]", 100_000)),
        "expected at most 101 values in each other",
    );
    refused_with(
        &format!("{{ \"a\": \"{}\" }}", nested("@str(", ")", 100_000)),
        "macros and values in each other",
    );
    refused_with(&format!("{{ \"a\": \"@str({},)\" }}", "(".repeat(1_000_000)), "expected `)` for each `(`");
    refused_with(&format!("{{ \"a\": \"{}\" }}", "@".repeat(1_000_000)), "expected a macro");
    refused_with(&format!("{{ \"a\": \"{}\" }}", "%x".repeat(1_000_000)), "expected a parameter");
    // Lookups through scopes in each other.
    let vars =
        ["{ \"vars\": { \"v\": 1 }, \"a\": ".repeat(98), "\"%v%\"".to_owned(), "}".repeat(98)].concat();
    assert!(expand(&format!("{{ \"a\": {vars} }}")).is_ok());
}

#[test]
fn large_but_honest_configurations_are_expanded() {
    // 100 pools of 1,000 servers, made by macros.
    let text = r#"{ "macros": { "pool": { "type": "macroDef", "params": [ "n" ], "result": {
          "type": "transform", "dictionary": "@range(@int(1), @int(1000))", "itemTransform": "10.%n%.0.@@" } } },
        "pools": { "type": "foreach", "from": "@range(@int(1), @int(100))", "use": { "pool%key%": "x" } } }"#;
    refused_with(text, "expected a string inside a string");
    let text = text
        .replace("pool%key%", "@str(%item%)")
        .replace("\"x\"", "{ \"servers\": { \"type\": \"pool\", \"n\": \"@str(%item%)\" } }");
    let root = expand(&text).expect("is within the limits");
    let pools = root.object("a test").unwrap().require("pools").unwrap().object("pools").unwrap();
    assert_eq!(pools.entries().len(), 100);
    let last = pools.require("100").unwrap().object("a pool").unwrap().array("servers").unwrap().unwrap();
    assert_eq!((last.len(), last[999].as_str()), (1000, Some("10.100.0.@@")));
}

#[test]
fn a_lookup_in_a_large_object_is_paid_for() {
    let entries: String = (0..200_000).fold(String::new(), |mut text, n| {
        write!(text, "\"k{n}\":1,").unwrap();
        text
    });
    let text = format!(
        "{{ \"vars\": {{ \"o\": {{ {entries} }} }}, \"a\": {{ \"type\": \"transform\", \"dictionary\": \"@range(@int(1), @int(1000000))\", \"itemTransform\": \"@select(%o%, none, @int(0))\" }} }}"
    );
    refused_with(&text, "steps of expansion");
}

#[test]
fn macros_with_many_parameters_are_paid_for() {
    let names: Vec<String> = (0..50_000).map(|n| format!("\"p{n}\"")).collect();
    let given: Vec<String> = names.iter().map(|name| format!("{name}: 1")).collect();
    let (names, given) = (names.join(","), given.join(","));
    let text = format!(
        "{{ \"macros\": {{ \"m\": {{ \"type\": \"macroDef\", \"params\": [ {names} ], \"result\": 1 }} }}, \"a\": {{ \"type\": \"m\", {given} }} }}"
    );
    refused_with(&text, "steps of expansion");
}

#[test]
fn long_texts_do_not_make_long_errors() {
    let long = "x".repeat(1_000_000);
    for text in [
        format!("{{ \"a\": \"@fail({long})\" }}"),
        format!("{{ \"a\": \"@{long}\" }}"),
        format!("{{ \"a\": \"%{long}%\" }}"),
        format!("{{ \"a\": \"%{long}\" }}"),
        format!("{{ \"a\": \"@int({long})\" }}"),
        format!("{{ \"a\": \"@{long}(\" }}"),
        format!("{{ \"a\": \"@import({long})\" }}"),
        format!("{{ \"a\": {{ \"type\": \"select\", \"dictionary\": {{}}, \"key\": \"{long}\" }} }}"),
        format!(
            "{{ \"macros\": {{ \"{long}\": {{ \"type\": \"macroDef\", \"result\": \"@fail\" }} }}, \"a\": {{ \"type\": \"{long}\" }} }}"
        ),
        format!("{{ \"macros\": [ \"{long}\" ] }}"),
        format!("{{ \"a\": 1{} }}", "0".repeat(1_000_000)),
    ] {
        let error = expand(&text).expect_err("is refused");
        assert!(error.len() < 4000, "{} bytes: {error:.300}", error.len());
    }
}

/// Random changes to configurations that have everything: nothing panics, and every error is one line with a place.
#[test]
fn mutated_configurations_never_panic() {
    let mut prng = Prng::new(20_26);
    let cases = parse(0, CASES.as_bytes()).expect("is JSON");
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (_, case) in cases.object("cases").unwrap().entries() {
        seeds.push(case.object("a case").unwrap().require("config").unwrap().to_json().into_bytes());
    }
    let words = [
        "@",
        "%",
        "\\",
        "(",
        ")",
        ",",
        "\"",
        "{",
        "}",
        "[",
        "]",
        "//",
        "/*",
        "*/",
        ":",
        "-9223372036854775808",
        "1e999",
        "\"type\":",
        "\"vars\":",
        "@int(",
        "%region%",
        "@import(list)",
        "@range(",
        "NaN",
        "\\ud800",
        "é",
        "\0",
        "\u{ff}",
    ];
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut text = seeds[prng.below(seeds.len() as u64) as usize].clone();
        for _ in 0..=prng.below(4) {
            mutate(&mut text, &words, &seeds, &mut prng);
        }
        // Not all of it is UTF-8; the parser must stand that, too.
        let _ = parse(0, &text);
        let text = String::from_utf8_lossy(&text);
        match expand(&text) {
            Ok(root) => {
                accepted += 1;
                let again = parse(0, root.to_json().as_bytes());
                assert!(again.is_ok(), "what is printed can be read again: {text}");
            }
            Err(error) => {
                refused += 1;
                assert!(error.len() < 4000, "an error is short: {error}");
            }
        }
    }
    assert!(
        accepted > 500 && refused > 500,
        "{accepted} accepted, {refused} refused: mutations are too mild or too wild"
    );
}

/// One change: a piece out, a piece twice, a word in, a byte, or a piece of another configuration.
fn mutate(text: &mut Vec<u8>, words: &[&str], seeds: &[Vec<u8>], prng: &mut Prng) {
    let len = text.len() as u64;
    let at = prng.below(len + 1) as usize;
    let end = (at + prng.below(20) as usize).min(text.len());
    match prng.below(5) {
        0 => drop(text.drain(at..end)),
        1 => {
            let piece = text[at..end].to_vec();
            text.splice(at..at, piece);
        }
        2 => {
            let word = words[prng.below(words.len() as u64) as usize];
            text.splice(at..end, word.bytes());
        }
        3 if at < text.len() => text[at] = prng.next_u64() as u8,
        _ => {
            let other = &seeds[prng.below(seeds.len() as u64) as usize];
            let start = prng.below(other.len() as u64) as usize;
            let stop = (start + prng.below(60) as usize).min(other.len());
            text.splice(at..end, other[start..stop].iter().copied());
        }
    }
}
