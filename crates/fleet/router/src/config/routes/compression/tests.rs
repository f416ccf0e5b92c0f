use super::*;
use crate::config::json::parse;
use crate::config::{CompileOptions, compile};
use crate::plan::{Compound, Node, RoutePlan};
use crate::routes::CompoundKind;

fn config(compression: &str) -> String {
    format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"a:1\", \"b:1\"],\n\"compression\": {compression}}}}},\n\
         \"route\": \"PoolRoute|A\"}}"
    )
}

fn compiled(compression: &str) -> Result<RoutePlan, String> {
    let json = parse(0, config(compression).as_bytes()).expect("JSON");
    let mut resolve = |_: &str, port: u16| Some(([127, 0, 0, 1], port).into());
    let dictionaries = [
        ("good".to_owned(), Ok(b"what values have in common".to_vec().into())),
        ("same".to_owned(), Ok(b"what values have in common".to_vec().into())),
        ("short".to_owned(), Ok(b"short".to_vec().into())),
        ("gone".to_owned(), Err("read /etc/gone: no such file".to_owned())),
    ];
    let options = CompileOptions { dictionaries: dictionaries.into(), ..CompileOptions::default() };
    compile(&json, 1, &options, &mut resolve).map_err(|error| error.to_string())
}

#[track_caller]
fn check(compression: &str, expected: &str) {
    assert_eq!(
        compiled(compression).expect_err("is refused"),
        format!("line 2: {expected}"),
        "{compression}"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    check("true", "expected an object (`compression` of a pool), found true");
    check("{\"flag_bit\": 1}", "expected `codec` in `compression` of a pool, found none");
    check("{\"codec\": \"lz4\"}", "expected `flag_bit` in `compression` of a pool, found none");
    check(
        "{\"codec\": \"gzip\", \"flag_bit\": 1}",
        "expected zstd or lz4 (`codec` of `compression`), found the string \"gzip\"",
    );
    for bit in ["-1", "32"] {
        check(
            &format!("{{\"codec\": \"lz4\", \"flag_bit\": {bit}}}"),
            &format!(
                "expected an integer from 0 to 31 (`flag_bit` of `compression`), found the number {bit}"
            ),
        );
    }
    check(
        "{\"codec\": \"lz4\", \"flag_bit\": 16}",
        "expected a bit that marks nothing else (5, 15 and 16 are marks of routes), found the number 16",
    );
    check(
        "{\"codec\": \"lz4\", \"flag_bit\": 1, \"min_len\": 100}",
        "expected one of codec, flag_bit, level, min_size, dictionaries in `compression`, found `min_len`",
    );
    check(
        "{\"codec\": \"lz4\", \"flag_bit\": 1, \"min_size\": 31}",
        "expected an integer from 32 to 1048576 (`min_size` of `compression` of a pool), found the number 31",
    );
    check(
        "{\"codec\": \"zstd\", \"flag_bit\": 1, \"level\": 10}",
        "expected an integer from 1 to 9 (`level` of `compression` of a pool), found the number 10",
    );
    check(
        "{\"codec\": \"lz4\", \"flag_bit\": 1, \"level\": 1}",
        "expected `level` only with the codec zstd, found it with lz4",
    );
    check(
        "{\"codec\": \"lz4\", \"flag_bit\": 1, \"dictionaries\": []}",
        "expected `dictionaries` only with the codec zstd, found it with lz4",
    );
}

#[test]
fn dictionaries_that_are_wrong_are_refused() {
    let with = |list: &str| format!("{{\"codec\": \"zstd\", \"flag_bit\": 1, \"dictionaries\": {list}}}");
    assert!(compiled(&with("[\"good\"]")).is_ok());
    check(&with("[\"good\", \"same\"]"), "expected each dictionary once, found the string \"same\"");
    check(&with("[\"short\"]"), "short: expected a dictionary of 8 to 1048576 bytes, found 5");
    check(&with("[\"gone\"]"), "expected a dictionary that can be read, found: read /etc/gone: no such file");
    check(&with("[\"unread\"]"), "expected a dictionary that was read, found the string \"unread\"");
    check(&with("[1]"), "expected a string (the file of a dictionary), found the number 1");
    check(
        &with(&format!("[{}\"good\"]", "\"x\", ".repeat(16))),
        "expected at most 16 dictionaries, found 17",
    );
}

#[test]
fn each_server_of_such_a_pool_has_compression_in_front_of_it() {
    let plan = compiled("{\"codec\": \"zstd\", \"flag_bit\": 31, \"level\": 7}").expect("a plan");
    let pool = plan.pools.find("A").expect("a pool");
    assert!(pool.children.iter().all(|child| plan.nodes[child.0 as usize].server().is_some()));
    let nodes = plan.nodes.iter().filter_map(|node| match node {
        Node::Compound(Compound { kind: CompoundKind::Compressed(Compressed(compression)), children }) => {
            Some((compression, children))
        }
        _ => None,
    });
    let (all, inner): (Vec<_>, Vec<_>) =
        nodes.map(|(compression, children)| (compression, children[0])).unzip();
    assert_eq!(inner, pool.children);
    for compression in all {
        assert_eq!((compression.codec, compression.flag), (Codec::Zstd(7), 1 << 31));
        assert_eq!(compression.min_len, 128);
    }
}

#[test]
fn files_of_dictionaries_are_found_wherever_a_pool_stands() {
    let json = parse(
        0,
        br#"{"pools": {"A": {"compression": {"dictionaries": ["b", "a", 1]}}, "B": {"compression": 7}},
            "route": [{"pool": {"name": "C", "compression": {"dictionaries": ["c", "a"]}}}]}"#,
    );
    assert_eq!(dictionary_files(&json.expect("JSON")), ["a", "b", "c"]);
}
