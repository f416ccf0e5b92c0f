use super::*;
use crate::config::json::{JsonValue, TEXT_LEN_MAX};
use stdx::prng::Prng;

mod hostile;

/// Configurations and results, by the sentence that each shows.
const CASES: &str = include_str!("../../../testdata/expand.json");

/// Expands with a few imports and globals.
fn expand(text: &str) -> Result<Json, String> {
    let mut importer = |path: &str| match path {
        "list" => Ok(br#"[ 1, "%region%" ] // a comment"#.to_vec()),
        "text" => Ok(br#""text""#.to_vec()),
        "more" => Ok(br#"{ "imported": { "type": "constDef", "result": "%region%" } }"#.to_vec()),
        "uses-c" => Ok(br#""%c%""#.to_vec()),
        "bad" => Ok(b"{\n\"a\": }".to_vec()),
        "wrong" => Ok(b"[\n\n@\n".to_vec()),
        "undefined" => Ok(b"[ 1,\n\"%undefined%\" ]".to_vec()),
        "circle" => Ok(br#""@import(%path%)""#.to_vec()),
        "endless" => Ok(br#"{ "vars": { "x": "@import(endless)" } }"#.to_vec()),
        "large" => Ok(vec![b' '; TEXT_LEN_MAX + 1]),
        _ if path.starts_with("deep") => Ok(format!("\"@import({path}x)\"").into_bytes()),
        _ if path.starts_with("huge") => Ok(format!("1{}", " ".repeat(TEXT_LEN_MAX - 1)).into_bytes()),
        _ => Err(format!("expected a known import, found `{path:.80}`")),
    };
    let text_value = |text: &str| JsonValue::String(text.to_owned());
    let environment = Environment {
        globals: vec![
            ("region".to_owned(), text_value("west")),
            ("region".to_owned(), text_value("the first counts")),
            ("called".to_owned(), text_value("@add(@int(1), @int(2))")),
            ("name-of-str".to_owned(), text_value("str")),
            ("path".to_owned(), text_value("circle")),
        ],
        importer: &mut importer,
        is_local: &|address| address.is_loopback(),
        seed: 1,
    };
    match expand_config("route.json", text.as_bytes(), environment) {
        Ok(expanded) => Ok(expanded.root),
        Err(error) => Err(error.to_string()),
    }
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(expand(text).expect_err("is refused"), expected, "{text:.200}");
}

/// The beginning of an error, for those that are long.
#[track_caller]
fn refused_with(text: &str, expected: &str) {
    let error = expand(text).expect_err("is refused");
    assert!(error.contains(expected), "{text:.200}: {error}");
}

#[test]
fn the_cases_expand_to_their_results() {
    let cases = parse(0, CASES.as_bytes()).expect("is JSON");
    let cases = cases.object("cases").unwrap().entries();
    for (name, case) in cases {
        let case = case.object("a case").unwrap();
        let config = case.require("config").unwrap().to_json();
        let expanded = expand(&config).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(expanded.to_json(), case.require("result").unwrap().to_json(), "{name}");
    }
    assert!(cases.len() >= 19, "cases are missed: {}", cases.len());
}

#[test]
fn expanded_values_keep_their_places() {
    let text = "{\n\"macros\": { \"m\": { \"type\": \"macroDef\", \"params\": [ \"p\" ],\n\"result\": { \"x\": \"%p%\",\n\"y\": [ 1 ] } } },\n\"a\": {\n\"type\": \"m\",\n\"p\": 5 } }";
    let root = expand(text).expect("is accepted");
    let made = root.object("a test").unwrap().require("a").unwrap();
    let made = made.object("a test").unwrap();
    assert_eq!(made.place().line, 3, "of the macro's body");
    assert_eq!(made.require("x").unwrap().place.line, 7, "of the parameter");
    assert_eq!(made.require("y").unwrap().place.line, 4);
}

#[test]
fn errors_say_file_line_and_what_was_expected() {
    refused("[]", "route.json:1: expected an object (a configuration), found an array of 0");
    refused(
        "{\n\"a\": \"@nothing(1)\" }",
        "route.json:2: expected a macro, found `@nothing`, which is not defined",
    );
    refused(
        "{\n\n\"a\": \"x%b%\" }",
        "route.json:3: expected a parameter, variable or constant, found `%b%`",
    );
    refused("{ \"a\": \"x%b\" }", "route.json:1: expected `%` after `%b`, found none");
    refused("{ \"a\": \"@str(1\" }", "route.json:1: expected `)` at the end of `@str(1`");
    refused(
        "{ \"a\": \"@str(@str(1)\" }",
        "route.json:1: expected `)` at the end of `@str(1`\n  in macro `str` (route.json:1)",
    );
    refused(
        "{ \"vars\": { \"x\": 5 }, \"a\": \"1%x%\" }",
        "route.json:1: expected a string inside a string, found the number 5 in `%x%`",
    );
    refused("{ \"vars\": [] }", "route.json:1: expected an object (`vars`), found an array of 0");
    refused(
        "{ \"vars\": { \"x\": {} }, \"%x%\": 1 }",
        "route.json:1: expected a string (an expanded key), found an empty object",
    );
    refused(
        "{ \"macros\": 5 }",
        "route.json:1: expected an object or a list of `macros`, found the number 5",
    );
    refused(
        "{ \"macros\": { \"a\": { \"type\": \"macro\",\n\"result\": 1 } } }",
        "route.json:1: expected `macroDef` or `constDef`, found the string \"macro\"",
    );
    refused(
        "{ \"macros\": { \"a\": { \"type\": \"macroDef\" } } }",
        "route.json:1: expected `result` in the definition of a macro or constant, found none",
    );
    refused(
        "{ \"a\": { \"type\": \"int\" } }",
        "route.json:1: expected parameter `value` of `int`, found none\n  in `int` (route.json:1)",
    );
    refused("{ \"a\": \"@fail(Not here)\" }", "route.json:1: Not here\n  in macro `fail` (route.json:1)");
    let in_macro =
        "{ \"macros\": { \"m\": { \"type\": \"macroDef\",\n\"result\": \"@int(x)\" } },\n\n\"a\": \"@m\" }";
    refused(
        in_macro,
        "route.json:2: expected what can be an integer, found the string \"x\"\n  in macro `int` (route.json:2)\n  in macro `m` (route.json:4)",
    );
}

#[test]
fn errors_of_imports_name_the_import() {
    refused(
        "{ \"a\": \"@import(bad)\" }",
        "bad:2: expected a value, found `}`\n  in import `bad` (route.json:1)\n  in macro `import` (route.json:1)",
    );
    refused_with("{ \"a\": \"@import(wrong)\" }", "wrong:3: expected a value, found `@`");
    refused_with(
        "{ \"a\": \"@import(undefined)\" }",
        "undefined:2: expected a parameter, variable or constant",
    );
    refused_with("{ \"a\": \"@import(unknown)\" }", "route.json:1: expected a known import, found `unknown`");
    assert_eq!(expand("{ \"a\": \"@import(bad, x)\" }").unwrap().to_json(), r#"{"a":"x"}"#);
    // A constant that fails inside an import fails in the same way outside.
    let text = r#"{ "macros": { "c": { "type": "constDef", "result": "@int(x)" } },
        "a": "@import(uses-c, x)", "b": "%c%" }"#;
    refused_with(text, "expected what can be an integer, found the string \"x\"");
}

#[test]
fn wrong_arguments_are_refused() {
    let check = |call: &str, expected: &str| refused_with(&format!("{{ \"a\": {call} }}"), expected);
    check(r#""@range(1, 2)""#, "expected an integer (from), found the string \"1\"");
    check(
        r#""@add(@int(9223372036854775807), @int(1))""#,
        "expected a result of 64 bits, found 9223372036854775807 + 1",
    );
    check(r#""@div(@int(-9223372036854775808), @int(-1))""#, "expected a result of 64 bits");
    check(r#""@bitwiseLeftShift(@int(1), @int(64))""#, "expected a result of 64 bits, found 1 << 64");
    check(r#""@bitwiseRightShift(@int(1), @int(-1))""#, "expected a result of 64 bits, found 1 >> -1");
    check(r#""@slice(é, @int(1), @int(1))""#, "expected whole characters in a slice, found a part of one");
    check(
        r#"{ "type": "sort", "dictionary": [ {}, {} ] }"#,
        "expected values that have an order, found objects",
    );
    check(r#"{ "type": "less", "A": 1, "B": {} }"#, "expected values that have an order, found objects");
    check(
        r#"{ "type": "merge", "params": [ [], {} ] }"#,
        "expected an array, as the first of what is merged",
    );
    check(r#"{ "type": "merge", "params": [] }"#, "expected `params` of merge, found none");
    check(r#"{ "type": "set", "dictionary": [], "key": 0, "value": 1 }"#, "expected an array with items");
    check(
        r#"{ "type": "foreach", "from": [ 1, 2 ], "use": 5 }"#,
        "expected an object or an array (`use` of foreach)",
    );
    check(
        r#"{ "type": "foreach", "from": [ 1 ], "top": -1 }"#,
        "expected an integer of at least 0 (`top` of foreach)",
    );
    check(
        r#"{ "type": "foreach", "from": [ 1 ], "key": "x", "item": "x" }"#,
        "expected different names, found `x` twice",
    );
    check(
        r#"{ "type": "transform", "dictionary": { "a": 1 }, "keyTransform": 5 }"#,
        "(`keyTransform`), found the number 5",
    );
    check(r#"{ "type": "weightedHash", "dictionary": { "a": -1 }, "key": 1 }"#, "expected a number");
    check(r#""@int(@double(1.5))""#, "expected what can be an integer, found the number 1.5");
    check(r#""@int(@double(1e300))""#, "expected what can be an integer");
    check(r#""@bool(perhaps)""#, "expected what can be a boolean");
    check(r#""@and(1, 2)""#, "expected true or false (`A`), found the string \"1\"");
    check(
        r#"{ "type": "shuffle", "dictionary": [ 1 ], "seed": -1 }"#,
        "expected an integer of at least 0 (`seed` of shuffle)",
    );
}

#[test]
fn without_a_seed_shuffling_follows_the_environment() {
    let shuffled =
        expand(r#"{ "a": { "type": "shuffle", "dictionary": "@range(@int(1), @int(50))" } }"#).unwrap();
    let again =
        expand(r#"{ "a": { "type": "shuffle", "dictionary": "@range(@int(1), @int(50))" } }"#).unwrap();
    assert_eq!(shuffled, again, "the same seed");
    let sorted = expand(&format!("{{ \"a\": {{ \"type\": \"sort\", \"dictionary\": {} }} }}", {
        shuffled.object("a test").unwrap().require("a").unwrap().to_json()
    }));
    assert_eq!(sorted.unwrap(), expand(r#"{ "a": "@range(@int(1), @int(50))" }"#).unwrap(), "nobody is lost");
}

#[test]
fn a_long_list_is_shuffled_as_in_libstdcxx() {
    // Beyond 46,340 items its algorithm is another one. The sum is that of a C++ program with the same seed.
    let text = r#"{ "a": { "type": "shuffle", "dictionary": "@range(@int(1), @int(50000))", "seed": 3 } }"#;
    let shuffled = expand(text).unwrap();
    let items = shuffled.object("a test").unwrap().array("a").unwrap().unwrap();
    let sum = items.iter().fold(0_u64, |sum, item| match item.value {
        JsonValue::Int(number) => sum.wrapping_mul(31).wrapping_add(number as u64),
        _ => panic!("a number became another thing"),
    });
    assert_eq!(sum, 15_054_944_023_367_611_228);
}

#[test]
fn weighted_choices_are_those_of_mcrouter() {
    // The sum is that of mcrouter's RendezvousHash with these names and weights, for the keys 0 to 999.
    let text = r#"{ "a": { "type": "transform", "dictionary": "@range(@int(0), @int(999))", "itemTransform": {
        "type": "weightedHash", "key": "%item%", "dictionary": { "a": 0, "b": 1, "cluster-é": 0.5, "d": 2.5 } } } }"#;
    let chosen = expand(text).unwrap();
    let names = ["a", "b", "cluster-é", "d"];
    let sum =
        chosen.object("a test").unwrap().array("a").unwrap().unwrap().iter().fold(0_u64, |sum, item| {
            let at = names.iter().position(|name| item.as_str() == Some(name)).expect("is a name");
            sum.wrapping_mul(31).wrapping_add(at as u64)
        });
    assert_eq!(sum, 6997960953898306227);
}
