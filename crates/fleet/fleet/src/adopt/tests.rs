//! Adopted files: small ones, hostile ones, and random ones that have to come back with the value that they had.

use std::fmt::Write;

use serde_json::json;
use stdx::prng::Prng;

use super::*;
use crate::{FleetPlanInput, plan, texts};

fn names() -> AdoptionNames {
    let name = |text: &str| text.to_owned();
    AdoptionNames {
        fleet: name("f").parse().expect("a name"),
        view: name("main").parse().expect("a name"),
        zone: name("a").parse().expect("a name"),
    }
}

/// The text that routers of the adopted file's view get.
fn compiled(adoption: &Adoption) -> String {
    texts(&adoption.generation.content).into_values().next().expect("a view")
}

/// Everything that holds for whatever is adopted; `value` is the file's.
#[track_caller]
fn check_whole(adoption: &Adoption, value: &Value) {
    let text = compiled(adoption);
    assert_eq!(&BareText::new(&text).value().expect("JSON"), value, "{text}");
    assert_eq!(FleetPolicy::parse(&adoption.policy_text).expect("a policy"), adoption.policy);
    let json = serde_json::to_string(&adoption.generation).expect("JSON");
    let read: Generation = serde_json::from_str(&json).expect("a generation");
    assert_eq!(read, adoption.generation, "the register gives back what it got");
    let input = FleetPlanInput {
        policy: &adoption.policy,
        inventory: &adoption.inventory,
        current: &read.content,
        excluded: &crate::Excluded::new(),
    };
    let next = plan(&input).expect("a plan");
    assert_eq!(
        (next.steps, next.content),
        (Vec::new(), read.content),
        "an adopted fleet is as its policy says"
    );
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let adoption = adopt(text, &names()).unwrap_or_else(|error| panic!("{error}"));
    check_whole(&adoption, &BareText::new(text).value().expect("JSON"));
    assert_eq!(compiled(&adoption), expected);
}

#[track_caller]
fn noted(text: &str, expected: &[&str]) {
    let adoption = adopt(text, &names()).unwrap_or_else(|error| panic!("{error}"));
    let own = adoption.notes.split_last().expect("the zone is told always").1;
    assert_eq!(own, expected);
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = adopt(text, &names()).expect_err("it is refused").to_string();
    assert!(error.starts_with(expected), "{error}");
    assert!(error.len() < 1000, "{} bytes", error.len());
}

/// A file with one pool of these servers and attributes.
fn pool(servers: &str, attributes: &str) -> String {
    format!(
        "{{\n\"pools\": {{\"web\": {{\n\"servers\": [{servers}]{attributes}}}}},\n\"route\": \"PoolRoute|web\"}}"
    )
}

#[test]
fn servers_keep_their_order_and_the_rest_of_the_file_its_text() {
    check(
        "// Ours.\n{\n  \"pools\": {\"web\": {\"servers\": [\"c:1\", \"a:1\", \"b:1\"], \"hash\": \"Crc32\"}},\n  /* all */ \"route\": \"PoolRoute|web\", // one\n}\n",
        "// Ours.\n{\n\"pools\": {\n  \"web\": {\"hash\":\"Crc32\",\"servers\":[\"c:1\",\"a:1\",\"b:1\"]}\n},\n  /* all */ \"route\": \"PoolRoute|web\", // one\n}\n",
    );
}

#[test]
fn pools_are_taken_out_wherever_they_stand() {
    let pools = "\"pools\": {\"w\": {\"servers\": [\"a:1\"]}}";
    let put_in = "\n\"pools\": {\n  \"w\": {\"servers\":[\"a:1\"]}\n}";
    check(&format!("{{{pools}}}"), &format!("{{{put_in}}}\n"));
    check(&format!("{{{pools},}}"), &format!("{{{put_in}}}\n"));
    check(&format!("{{\"x\": 1, {pools}}}"), &format!("{{{put_in},\"x\": 1}}\n"));
    check(&format!("{{\"x\": 1, {pools},}}"), &format!("{{{put_in},\"x\": 1, }}\n"));
    check(&format!("{{\"x\": 1, // y\n{pools}}}"), &format!("{{{put_in},\"x\": 1, // y\n}}\n"));
    check(
        &format!("{{\"x\": [1, 2,], {pools}, \"y\": {{}}}}"),
        &format!("{{{put_in},\"x\": [1, 2,],  \"y\": {{}}}}\n"),
    );
    check(
        &format!("{{\"x\": \"}}, \\\"pools\\\": // \\\\\", \"\\u0070ools\": {}}}", &pools[8..]),
        &format!("{{{put_in},\"x\": \"}}, \\\"pools\\\": // \\\\\"}}\n"),
    );
}

/// A tenth of all quotients of small numbers came back from the register as another number before `float_roundtrip`.
#[test]
fn weights_come_back_to_the_last_bit() {
    let weights = |over: u32| (1..=over).map(|n| f64::from(n) / f64::from(over)).collect::<Vec<_>>();
    for over in [11, 53, 65, 70, 71] {
        let text = pool("\"a:1\"", &format!(", \"weights\": {}", json!(weights(over))));
        let adoption = adopt(&text, &names()).unwrap_or_else(|error| panic!("{error}"));
        check_whole(&adoption, &BareText::new(&text).value().expect("JSON"));
        let read =
            adoption.generation.content.clusters[0].pool["weights"].as_array().cloned().expect("an array");
        let read: Vec<f64> = read.iter().map(|weight| weight.as_f64().expect("a number")).collect();
        assert_eq!(read, weights(over));
    }
}

#[test]
fn what_people_should_know_is_told() {
    noted(&pool("\"a:1\", \"b:1\"", ""), &[]);
    noted(&pool("\"a:1\", \"a:2\"", ""), &["cluster web: several slots are on one host (`shares_hosts`)"]);
    noted(
        &pool("\"a:1\", \"b:1\"", ", \"weights\": [1, 2], \"tags\": [\"x\"]"),
        &["cluster web: `weights` has a value for each slot: change it together with `slots`"],
    );
    noted(&pool("\"a:1\" /* old */", ""), &["comments between pools are not kept"]);
    noted(
        &pool("\"a:1\"", "")
            .replace("\"PoolRoute|web\"", "{\"pool\": {\"name\": \"x\", \"servers\": [\"b:1\"]}}"),
        &["1 pool inside routes with servers of their own, which have no slots and are never replaced"],
    );
    noted(
        &pool("\"a:1\", \"b:1\"", "").replace(
            "\"PoolRoute|web\"",
            "[\"PoolRoute|web\", {\"pool\": {\"name\": \"x\", \"servers\": [\"b:1\", \"c:1\"]}}]",
        ),
        &[
            "1 pool inside routes with servers of their own, which have no slots and are never replaced",
            "b:1 has a slot as well: a pool inside the routes loses its items when that slot goes to another member",
        ],
    );
}

#[test]
fn what_no_generation_can_hold_is_refused_with_its_place() {
    refused(
        &pool("\"a:1\"", ",\n\"inherit\": \"x\""),
        "adopt line 4 (/pools/web/inherit): expected a pool that is complete",
    );
    refused(
        &pool("\"a:1\"", ",\n\"server_timeout\": \"%t%\""),
        "adopt line 4 (/pools/web/server_timeout): expected a pool without macros",
    );
    refused(
        &pool("\"a:1\"", ",\n\"x\": [1, {\"type\": \"if\"}]"),
        "adopt line 4 (/pools/web/x/1): expected a pool without macros",
    );
    refused(
        &pool("\"@servers()\"", ""),
        "adopt line 3 (/pools/web/servers/0): expected a pool without macros",
    );
    refused(&pool("\"a:1\"", ",\n\"x\": null"), "adopt line 4 (/pools/web/x): expected a value, found null");
    refused(
        &pool("\"a:1\"", ",\n\"x\": [18446744073709551615]"),
        "adopt line 4 (/pools/web/x/0): expected an integer of 64 bits",
    );
    refused(
        "{\"pools\": \"@import(x)\"}",
        "adopt line 1 (/pools): expected a file that is complete, found @import",
    );
    refused(
        "{\"pools\": {},\n\"route\": [{\"type\": \"import\"}]}",
        "adopt line 2 (/route/0): expected a file that is complete",
    );
    refused(
        "{\"pools\": {\"a b\": {}}}",
        "adopt line 1 (/pools/a b): expected a cluster's name, found that the cluster \"a b\" is not",
    );
    refused("{\"pools\": {\"a\": []}}", "adopt line 1 (/pools/a): expected an object, found an array of 0");
    refused("{\"pools\": {\"a\": {}}}", "adopt line 1 (/pools/a): expected `servers`, found none");
    refused("{\"pools\": {}}", "adopt line 1 (/pools): expected 1 to 256 pools, found 0");
    refused("{\n\"route\": \"x\"}", "adopt line 1: expected `pools`, found none");
    refused(
        "{\"pools\": {},\n\"pools\": {\"a\": {\"servers\": [\"a:1\"]}}}",
        "adopt line 2 (/pools): expected `pools` once",
    );
}

#[test]
fn a_server_has_an_address_and_one_slot() {
    refused(&pool("", ""), "adopt line 3 (/pools/web/servers): expected 1 to 10000 servers, found 0");
    refused(
        &pool("\"a:1\",\n 7", ""),
        "adopt line 4 (/pools/web/servers/1): expected an address as a string, found the number 7",
    );
    refused(
        &pool("\"a:1\",\n\"a\"", ""),
        "adopt line 4 (/pools/web/servers/1): expected HOST:PORT, [ADDRESS]:PORT or unix:PATH, found \"a\"",
    );
    refused(&pool("\"a:1:ascii:ssl\"", ""), "adopt line 3 (/pools/web/servers/0): expected HOST:PORT");
    refused(
        &pool("\"a:1\",\n\"b:1\",\n\"a:1\"", ""),
        "adopt line 5 (/pools/web/servers/2): expected each server once in all pools, found a:1 twice in the pool web, as servers 0 and 2\n  \
         hint: take one of them out",
    );
}

/// Pools a and b with these servers, and what follows them.
#[track_caller]
fn refused_pools(a: &str, b: &str, place: &str, words: &[&str]) {
    let text = format!(
        "{{\"pools\": {{\"a\": {{\"servers\": [{a}}},\n\"b\": {{\"servers\": [{b}}}}}, \"route\": \"PoolRoute|a\"}}"
    );
    let error = adopt(&text, &names()).expect_err("it is refused").to_string();
    assert!(
        error.starts_with(&format!("adopt line 2 ({place}): expected each server once in all pools")),
        "{error}"
    );
    for words in words {
        assert!(error.contains(words), "{words:?}: {error}");
    }
}

#[test]
fn a_server_of_two_pools_is_refused_with_both_and_with_what_to_do() {
    refused_pools(
        "\"x:1\", \"z:1\"]",
        "\"y:1\", \"x:1:ascii:plain\"]",
        "/pools/b/servers/1",
        &[
            "found x:1 in the pools a (server 0) and b (server 1)\n  hint: a server has one slot",
            "1 server is in both pools",
            "Give b servers of its own",
        ],
    );
    let both = "\"x:1\", \"y:1\"]";
    let same = "both pools have the same 2 servers in the same order: write `PoolRoute|a` where the routes have `PoolRoute|b`, and take the \
                pool b out";
    refused_pools(both, both, "/pools/b/servers/0", &[same]);
    let other = format!("{both}, \"server_timeout\": 5, \"hash\": \"Ch3\"");
    let differ = format!("{same}. They differ in `hash`, `server_timeout`, of which a keeps its own");
    refused_pools(both, &other, "/pools/b/servers/0", &[&differ]);
    // In another order it is another pool: a key has another server there.
    refused_pools(both, "\"y:1\", \"x:1\"]", "/pools/b/servers/0", &["2 servers are in both pools"]);
}

#[test]
fn limits_hold_for_a_hostile_file() {
    let servers = |count: usize| (0..count).map(|n| format!("\"h{n}:1\"")).collect::<Vec<_>>().join(",");
    let adoption = adopt(&pool(&servers(SLOTS_MAX), ""), &names()).expect("it is the limit");
    assert_eq!(adoption.inventory.members().count(), SLOTS_MAX);
    refused(
        &pool(&servers(SLOTS_MAX + 1), ""),
        "adopt line 3 (/pools/web/servers): expected 1 to 10000 servers, found 10001",
    );
    let pools: Vec<String> = (0..4)
        .map(|n| {
            format!("\"p{n}\": {{\"servers\": [{}]}}", servers(9_000).replace("\"h", &format!("\"h{n}-")))
        })
        .collect();
    refused(
        &format!("{{\"pools\": {{{}}}}}", pools.join(",")),
        "adopt line 1 (/pools): the inventory has 32769 members",
    );
    refused(&" ".repeat(POLICY_LEN_MAX + 1), "adopt line 1: expected at most 4194304 bytes, found 4194305");
    // What grows when it is written as TOML may be too long then.
    let growing = format!("{{\"x\": \"{}\", {}", "\u{7f}".repeat(3_000_000), &pool("\"a:1\"", "")[1..]);
    refused(&growing, "adopt line 1: expected what a policy can hold, found that the policy has");
    let name = "\u{1b}[31m".repeat(200_000);
    refused(&json!({"pools": {name: {}}}).to_string(), "adopt line 1 (/pools/\\u{1b}[31m");
}

#[test]
fn broken_text_is_refused_with_its_line_and_without_a_panic() {
    refused("", "adopt line 1: expected JSON with comments");
    refused("[]", "adopt line 1: expected an object, found an array of 0");
    refused("{\n\n\"pools\" {}}", "adopt line 3: expected JSON with comments");
    for text in [
        "\"",
        "\"\\",
        "/*",
        "/* \"",
        "//",
        "{",
        "{\"a",
        "{\"pools\":",
        "[,]",
        "{,}",
        "[1,,]",
        "{\"a\":,}",
        "\0",
        "{}x",
    ] {
        refused(text, "adopt line 1: expected JSON with comments");
    }
    refused(&"[".repeat(100_000), "adopt line 1: expected JSON with comments");
    let whole =
        "{ // c\n \"pools\": {\"w\": {\"servers\": [\"a:1\", /* \" */ \"b\\u003a1\",], \"x\": \"\\\\\"}}, }";
    adopt(whole, &names()).expect("it is whole");
    for end in (0..whole.len() - 1).filter(|end| whole.is_char_boundary(*end)) {
        adopt(&whole[..end], &names()).expect_err("it is cut off");
    }
    let mut prng = Prng::new(7);
    for _ in 0..20_000 {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..=prng.below(3) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = b"\"\\/*{}[],: \n@%a"[prng.below(15) as usize];
        }
        let text = String::from_utf8(bytes).expect("ASCII");
        if let Ok(adoption) = adopt(&text, &names()) {
            check_whole(&adoption, &BareText::new(&text).value().expect("JSON"));
        }
    }
}

#[test]
fn any_file_comes_back_with_the_value_that_it_had() {
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let value = random_file(&mut prng);
        let mut text = String::new();
        print(&mut prng, &value, &mut text);
        let adoption = adopt(&text, &names()).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        check_whole(&adoption, &value);
        let again = adopt(&text, &names()).expect("as before");
        assert_eq!((&again.policy_text, &again.generation), (&adoption.policy_text, &adoption.generation));
        let servers = |name: &str| value["pools"][name]["servers"].as_array().cloned().expect("an array");
        assert!(adoption.generation.content.clusters.iter().all(|cluster| {
            let addresses: Vec<Value> = cluster.slots.iter().map(|slot| json!(slot.address)).collect();
            addresses == servers(cluster.name.as_str())
        }));
    }
}

fn random_file(prng: &mut Prng) -> Value {
    let mut number = prng.below(1000);
    let mut pools = Map::new();
    for name in 0..=prng.below(4) {
        let servers: Vec<String> = (0..=prng.below(6))
            .map(|_| {
                number += 1;
                match prng.below(4) {
                    0 => format!("[fe80::{}]:{number}", prng.below(3)),
                    1 => format!("unix:/run/s{number}"),
                    2 => format!("Host{}.example:{number}", prng.below(5)),
                    _ => format!("10.0.0.{}:{number}", prng.below(5)),
                }
            })
            .collect();
        let mut pool = Map::from_iter([("servers".to_owned(), json!(servers))]);
        for attribute in 0..prng.below(4) {
            pool.insert(format!("x{attribute}"), random_value(prng, 0, false));
        }
        pools.insert(format!("p{}", name * 7 % 5), Value::Object(pool));
    }
    let mut file = Map::from_iter([("pools".to_owned(), Value::Object(pools))]);
    for entry in 0..prng.below(5) {
        // Some stand before the pools and some behind: a map is sorted.
        file.insert(format!("{}{entry}", ["a", "z"][prng.below(2) as usize]), random_value(prng, 0, true));
    }
    Value::Object(file)
}

/// Any value; in pools, without null.
fn random_value(prng: &mut Prng, depth: u64, has_null: bool) -> Value {
    match prng.below(if depth > 3 { 5 } else { 7 }) {
        0 if has_null => Value::Null,
        0 | 1 => json!(prng.next_u64() as i64 >> prng.below(64)),
        2 => json!(f64::from_bits(prng.next_u64())).as_f64().map_or(json!(true), |double| json!(double)),
        3 | 4 => {
            let parts = [
                "\"", "\\", "//", "/*", "*/", ",", "}", "]", "\n", "\r\n", "\t", "'''", "\"\"\"", "é",
                "\u{0}", "pools", " ",
            ];
            json!(
                (0..prng.below(6))
                    .map(|_| parts[prng.below(parts.len() as u64) as usize])
                    .collect::<String>()
            )
        }
        5 => Value::Array((0..prng.below(4)).map(|_| random_value(prng, depth + 1, has_null)).collect()),
        _ => (0..prng.below(4))
            .map(|key| (format!("k\"{key}"), random_value(prng, depth + 1, has_null)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

/// Writes a value as people do, with comments and commas.
fn print(prng: &mut Prng, value: &Value, text: &mut String) {
    noise(prng, text);
    let (opening, closing, parts): (_, _, Vec<(Option<&String>, &Value)>) = match value {
        Value::Array(items) => ('[', ']', items.iter().map(|item| (None, item)).collect()),
        Value::Object(object) => ('{', '}', object.iter().map(|(key, value)| (Some(key), value)).collect()),
        _ => return write!(text, "{value}").expect("memory"),
    };
    text.push(opening);
    let count = parts.len();
    for (number, (key, part)) in parts.into_iter().enumerate() {
        if let Some(key) = key {
            noise(prng, text);
            text.push_str(&json!(key).to_string());
            noise(prng, text);
            text.push(':');
        }
        print(prng, part, text);
        noise(prng, text);
        if number + 1 < count || prng.below(3) == 0 {
            text.push(',');
        }
    }
    noise(prng, text);
    text.push(closing);
}

fn noise(prng: &mut Prng, text: &mut String) {
    let words = ["", "", "", " ", "\n", "\t", "\r\n", "// , } \" é\n", "/* { \" // */", "/**/", "//\n"];
    text.push_str(words[prng.below(words.len() as u64) as usize]);
}

#[test]
fn an_address_with_its_defaults_is_that_address() {
    let names = AdoptionNames {
        fleet: "f".parse().expect("a name"),
        view: "main".parse().expect("a name"),
        zone: "a".parse().expect("a name"),
    };
    let file = |address: &str, rest: &str| {
        format!(
            "{{\"pools\": {{\"A\": {{\"servers\": [\"{address}\"]{rest}}}}}, \"route\": \"PoolRoute|A\"}}"
        )
    };
    for address in ["10.0.0.1:11211:ascii:plain", "10.0.0.1:11211:ascii", "[::1]:5:ascii:plain:notcompressed"]
    {
        let adoption = adopt(&file(address, ""), &names).unwrap_or_else(|error| panic!("{address}: {error}"));
        let bare = &address[..address.find(":ascii").expect("it has a protocol")];
        assert_eq!(adoption.generation.content.clusters[0].slots[0].address, bare);
    }
    for (address, rest) in [
        ("h:1:ascii:ssl", ""),
        ("h:1:caret", ""),
        ("h:1:ascii", ", \"protocol\": \"caret\""),
        ("h:ascii", ""),
    ] {
        let error = adopt(&file(address, rest), &names).expect_err(address).to_string();
        assert!(error.contains("expected HOST:PORT"), "{error}");
    }
}
