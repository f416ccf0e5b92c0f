use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let node = parse(0, text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(node.to_json(), expected, "{text}");
}

#[track_caller]
fn refused(text: &[u8], expected: &str) {
    let error = parse(0, text).expect_err("is refused");
    assert_eq!(error.to_string(), expected, "{}", String::from_utf8_lossy(&text[..text.len().min(80)]));
}

#[test]
fn values_are_read() {
    check(
        " [null, true, false, 0, -12, 1.5, -2e3, \"a\", [], {}] ",
        r#"[null,true,false,0,-12,1.5,-2000,"a",[],{}]"#,
    );
    check(r#"{"b": 1, "a": {"c": [2]}}"#, r#"{"a":{"c":[2]},"b":1}"#);
    check(r#""\" \\ \/ \b\f\n\r\t A é 😀 é""#, r#""\" \\ / \b\f\n\r\t A é 😀 é""#);
    check(r#""\u0041\u00e9\ud83d\ude00\u0000""#, r#""Aé😀\u0000""#);
}

#[test]
fn comments_and_trailing_commas_are_accepted() {
    check("// first\n{ /* a\n b */ \"a\": 1, // \"x\": 2\n \"b\": [1, 2, ], }", r#"{"a":1,"b":[1,2]}"#);
    check(r#"{"a": "// no", "b": "/* no */", "c": "\"//"}"#, r#"{"a":"// no","b":"/* no */","c":"\"//"}"#);
    check("[1] /* without an end", "[1]");
    check("1/**/2", "12");
    check("[1] // \u{0}", "[1]");
}

#[test]
fn leniences_of_mcrouter_are_ours() {
    check("007", "7");
    check("1.", "1");
    check("[NaN, Infinity, -Infinity, 1e999]", "[NaN,Infinity,-Infinity,Infinity]");
    check("\"two\nlines\u{1}\"", r#""two\nlines\u0001""#);
    check("1\0 and what follows", "1");
    check(r#"{"a": 1, "b": 2, "a": 3}"#, r#"{"a":3,"b":2}"#);
    check("9223372036854775807", "9223372036854775807");
    check("-9223372036854775808", "-9223372036854775808");
}

#[test]
fn places_are_lines_of_the_text() {
    let node = parse(3, b"{\n/*\n*/ \"a\n\": [\n1, // x\n2]}").expect("is JSON");
    let list = node.object("a test").unwrap().require("a\n").unwrap();
    assert_eq!(list.place, Location { source: 3, line: 4 });
    let lines: Vec<_> = list.array("a list").unwrap().iter().map(|item| item.place.line).collect();
    assert_eq!(lines, [5, 6]);
}

#[test]
fn errors_say_line_expected_and_found() {
    refused(b"", "line 1: expected a value, found the end of the text");
    refused(b"{\n\"a\": 1\n\"b\"", "line 3: expected `,` or `}`, found `\"`");
    refused(b"[1, 2", "line 1: expected `,` or `]`, found the end of the text");
    refused(b"[,]", "line 1: expected a value, found `,`");
    refused(b"[1,,]", "line 1: expected a value, found `,`");
    refused(b"{1: 2}", "line 1: expected a key in quotes, or `}`, found `1`");
    refused(b"{\"a\" 2}", "line 1: expected `:` after a key, found `2`");
    refused(b"[1] x", "line 1: expected the end of the text, found `x`");
    refused(b"+1", "line 1: expected a value, found `+`");
    refused(b".5", "line 1: expected a value, found `.`");
    refused(b"-", "line 1: expected digits after `-`, found the end of the text");
    refused(b"1e", "line 1: expected digits of an exponent, found the end of the text");
    refused(b"\n\"a", "line 2: expected `\"`, found the end of the text");
    refused(b"\"\\", "line 1: expected `\"`, found the end of the text");
    refused(b"\"\\x\"", "line 1: expected one of `\"\\/bfnrtu` after `\\`, found `x`");
    refused(b"\"\\u12\"", "line 1: expected 4 hexadecimal digits, found `1`");
    refused("\"\\u1é23\"".as_bytes(), "line 1: expected 4 hexadecimal digits, found `1`");
    refused(b"9223372036854775808", "line 1: expected an integer of 64 bits, found 9223372036854775808");
    refused(b"\n\"\xff\"", "line 2: expected UTF-8, found other bytes");
    assert!(parse(0, b"[1] // \xff").is_ok(), "but in a comment nobody reads them");
}

#[test]
fn limits_are_limits() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    check(&nested(DEPTH_MAX + 1), &nested(DEPTH_MAX + 1));
    refused(nested(DEPTH_MAX + 2).as_bytes(), "line 1: expected at most 101 values in each other, found `[`");
    refused(
        "[".repeat(TEXT_LEN_MAX).as_bytes(),
        "line 1: expected at most 101 values in each other, found `[`",
    );
    refused(&vec![b' '; 100_000_000], "line 1: expected at most 16777216 bytes, found 100000000 bytes");
    let many = format!("[{}]", "1,".repeat(NODE_COUNT_MAX));
    refused(many.as_bytes(), "line 1: expected at most 2097152 values, found more");
}

#[test]
fn large_objects_are_read_in_linear_time_and_keep_their_last_values() {
    let entries: String = (0..200_000).map(|n| format!("\"{}\":{n},", n % 100_000)).collect();
    let node = parse(0, format!("{{{entries}}}").as_bytes()).expect("is JSON");
    let object = node.object("a test").unwrap();
    assert_eq!(object.entries().len(), 100_000);
    assert!(
        object
            .entries()
            .iter()
            .enumerate()
            .all(|(n, entry)| entry.1 == Json::new(Location::default(), JsonValue::Int(n as i64 + 100_000)))
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_named() {
    let node = parse(0, br#"{"servers": 5, "weight": 1.5, "name": "x", "port": 70000, "long": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#).unwrap();
    let pool = node.object("a pool").unwrap();
    let check = |error: ConfigError, expected: &str| assert_eq!(error.to_string(), expected);
    check(
        pool.array("servers").unwrap_err(),
        "line 1: expected an array (`servers` of a pool), found the number 5",
    );
    check(
        pool.bool("name").unwrap_err(),
        "line 1: expected true or false (`name` of a pool), found the string \"x\"",
    );
    check(
        pool.integer("port", 0..=65535).unwrap_err(),
        "line 1: expected an integer from 0 to 65535 (`port` of a pool), found the number 70000",
    );
    check(
        pool.integer("weight", 0..=i64::MAX).unwrap_err(),
        "line 1: expected an integer of at least 0 (`weight` of a pool), found the number 1.5",
    );
    check(
        pool.number("weight", 0.0..=1.0).unwrap_err(),
        "line 1: expected a number from 0 to 1 (`weight` of a pool), found the number 1.5",
    );
    check(pool.require("hash").unwrap_err(), "line 1: expected `hash` in a pool, found none");
    check(
        node.string("a route").unwrap_err(),
        "line 1: expected a string (a route), found an object with \"servers\"",
    );
    check(
        pool.integer("long", 0..=1).unwrap_err(),
        &format!(
            "line 1: expected an integer from 0 to 1 (`long` of a pool), found the string \"{}\"…",
            "a".repeat(40)
        ),
    );
    assert_eq!(pool.number("servers", 0.0..=9.0).unwrap(), Some(5.0));
    assert_eq!(pool.string("none").unwrap(), None);
}

#[test]
fn numbers_are_written_as_mcrouter_does() {
    for (number, expected) in
        [(1.0, "1"), (0.5, "0.5"), (1e20, "100000000000000000000"), (1e21, "1E21"), (1e-7, "1E-7")]
    {
        assert_eq!(double_text(number), expected);
    }
}

#[test]
fn pretty_text_is_the_same_value() {
    let node = parse(0, br#"{"b":[1,{"c":null}],"a":[],"d":{}}"#).unwrap();
    let pretty = node.to_pretty_json();
    assert_eq!(
        pretty,
        "{\n  \"a\": [],\n  \"b\": [\n    1,\n    {\n      \"c\": null\n    }\n  ],\n  \"d\": {}\n}"
    );
    assert_eq!(parse(0, pretty.as_bytes()).unwrap(), node);
}

#[test]
fn sorting_orders_kinds_then_values() {
    let order = |a: JsonValue, b: JsonValue| a.order(&b);
    let big = 1_i64 << 53;
    assert_eq!(order(JsonValue::Int(big + 1), JsonValue::Double(big as f64)), Some(Ordering::Greater));
    assert_eq!(order(JsonValue::Int(-2), JsonValue::Double(-1.5)), Some(Ordering::Less));
    assert_eq!(order(JsonValue::Int(-1), JsonValue::Double(-1.5)), Some(Ordering::Greater));
    assert_eq!(order(JsonValue::Double(-0.0), JsonValue::Double(0.0)), Some(Ordering::Equal));
    assert_eq!(order(JsonValue::Int(i64::MAX), JsonValue::Double(f64::INFINITY)), Some(Ordering::Less));
    assert_eq!(order(JsonValue::Int(i64::MAX), JsonValue::Double(f64::NAN)), Some(Ordering::Less));
    assert_eq!(order(JsonValue::Null, JsonValue::Bool(false)), Some(Ordering::Less));
    assert_eq!(order(JsonValue::String("b".into()), JsonValue::String("a".into())), Some(Ordering::Greater));
    assert_eq!(order(JsonValue::Object(vec![]), JsonValue::Object(vec![])), None);
    let list = |text: &str| parse(0, text.as_bytes()).expect("is JSON").value;
    assert_eq!(order(list("[1,2]"), list("[1,2,0]")), Some(Ordering::Less));
    assert_eq!(order(list("[{}]"), list("[{}]")), None);
}
