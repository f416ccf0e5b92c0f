use super::*;

/// Keys with the results of mcrouter's own functions.
const VECTORS: &str = include_str!("../../../testdata/hash_vectors.tsv");

fn description(function: &str, count: usize) -> HashDescription<'_> {
    HashDescription { function, salt: "", count, weights: None, tags: None }
}

fn plain(function: &str, count: usize) -> Selector {
    Selector::new(&description(function, count)).expect("is accepted")
}

fn weighted(weights: &[f64]) -> Selector {
    let given = HashDescription { weights: Some(weights), ..description("WeightedCh3", weights.len()) };
    Selector::new(&given).expect("is accepted")
}

/// Rendezvous over tags as mcrouter's tests have them.
fn rendezvous(weights: Option<&[f64]>, count: usize) -> Selector {
    let tags: Vec<String> = (0..count).map(|n| format!("xxx.{n}.yy")).collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let function = if weights.is_some() { "WeightedRendezvous" } else { "Rendezvous" };
    let given = HashDescription { weights, tags: Some(&tags), ..description(function, count) };
    Selector::new(&given).expect("is accepted")
}

/// Keys per child, of `keys` keys.
fn counts(selector: &Selector, children: usize, prefix: &str, keys: usize) -> Vec<usize> {
    let mut counts = vec![0; children];
    for n in 0..keys {
        counts[selector.select(format!("{prefix}{n}").as_bytes())] += 1;
    }
    counts
}

/// A number that depends on every choice and its place.
fn checksum(selector: &Selector, prefix: &str, keys: usize) -> u32 {
    (0..keys).fold(0_u32, |sum, n| {
        sum.wrapping_mul(31).wrapping_add(selector.select(format!("{prefix}{n}").as_bytes()) as u32)
    })
}

/// Bytes from -128 to 127, and back.
fn all_bytes() -> [Vec<u8>; 2] {
    let forward: Vec<u8> = (0..=255_u8).map(|byte| byte.wrapping_sub(128)).collect();
    let back = forward.iter().rev().copied().collect();
    [forward, back]
}

#[test]
fn the_vectors_of_mcrouter_hold() {
    let mut lines = VECTORS.lines();
    let names: Vec<&str> = lines.next().expect("has a head").split('\t').collect();
    let mut checked = 0;
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let key = fields[0].as_bytes();
        for (name, field) in names.iter().zip(&fields).skip(1) {
            let expected: u64 = field.parse().expect("is a number");
            let found = match *name {
                "murmur64A_seed4193360111" => murmur64a(key, 4_193_360_111),
                "spooky32_seed0" => u64::from(spooky32(key, 0)),
                "crc32" => u64::from(crc32(key)),
                "crc32route_10" => plain("Crc32", 10).select(key) as u64,
                "wch3_w1:0.5:0.25:0.1:1" => weighted(&[1.0, 0.5, 0.25, 0.1, 1.0]).select(key) as u64,
                ch3 => {
                    let count =
                        ch3.strip_prefix("ch3_").expect("is a name of ours").parse().expect("is a count");
                    plain("Ch3", count).select(key) as u64
                }
            };
            assert_eq!(found, expected, "{name} of {}", fields[0]);
            checked += 1;
        }
    }
    assert_eq!(checked, 255 * 16, "all vectors are read");
}

// What follows are facts that mcrouter's unit tests state.

#[test]
fn ch3_agrees_with_mcrouters_tests() {
    assert_eq!(plain("Ch3", 100).select(b"sample"), 97);
    assert_eq!(plain("Ch3", 100).select(b""), 72);
    assert_eq!(plain("Ch3", CH3_COUNT_MAX).select(b"sample"), 5_167_780);
    assert_eq!(plain("Ch3", CH3_COUNT_MAX).select(b""), 6_173_600);
    assert_eq!(all_bytes().map(|key| plain("Ch3", 99_999).select(&key)), [31_015, 67_101]);
    assert_eq!(counts(&plain("Ch3", 3), 3, "", 1000), [307, 342, 351]);
    let expected = [995, 955, 1046, 968, 1032, 972, 1016, 1038, 1010, 968];
    assert_eq!(counts(&plain("Ch3", 10), 10, "", 10_000), expected);
    // Beyond what a pool may have, where walks are longer.
    assert_eq!(ch3(b"key0", 1 << 30), 856_543_823);
    assert_eq!(ch3(b"short", u32::MAX), 3_727_818_566);
}

#[test]
fn crc32_agrees_with_mcrouters_tests() {
    assert_eq!(plain("Crc32", 100).select(b"sample"), 7);
    assert_eq!(plain("Crc32", 100).select(b""), 0);
    assert_eq!(plain("Crc32", (1 << 30) - 1).select(b"sample"), 822_834_884);
    assert_eq!(all_bytes().map(|key| plain("Crc32", 99_999).select(&key)), [11_697, 97_630]);
}

#[test]
fn weighted_ch3_agrees_with_mcrouters_tests() {
    assert_eq!(weighted(&[1.0; 100]).select(b"sample"), 97);
    assert_eq!(weighted(&[0.0; 100]).select(b"sample"), 59);
    assert_eq!(weighted(&[0.0; 100]).select(b""), 45);
    assert_eq!(counts(&weighted(&[1.0, 1.0, 0.7]), 3, "", 1000), [341, 371, 288]);
    let weights = [0.429, 0.541, 0.117, 0.998, 0.283, 0.065, 0.109, 0.042, 0.676, 0.943];
    let expected = [1016, 1252, 288, 2354, 661, 195, 247, 122, 1668, 2197];
    assert_eq!(counts(&weighted(&weights), 10, "", 10_000), expected);
    for (count, expected) in [(2, 1_346_413_954), (7, 4_252_552_508), (1000, 2_251_851_331)] {
        assert_eq!(checksum(&weighted(&vec![1.0; count]), "k", 100_000), expected, "of {count}");
    }
    for (count, expected) in [(2, 2_395_690_262), (10, 547_444_706), (100, 2_951_198_297)] {
        assert_eq!(checksum(&weighted(&vec![0.5; count]), "k", 10_000), expected, "halves of {count}");
    }
    for (count, expected) in [(2, 3_431_444_300), (10, 1_290_067_504), (1000, 337_394_182)] {
        assert_eq!(checksum(&weighted(&vec![0.0; count]), "k", 10_000), expected, "none of {count}");
    }
    assert_eq!(checksum(&weighted(&[1.0, 0.5, 0.0, 0.75, 1.0]), "d", 10_000), 2_309_057_571);
}

#[test]
fn rendezvous_agrees_with_mcrouters_tests() {
    let [bytes, _] = all_bytes();
    let keys: [&[u8]; 4] = [b"sample", b"", b"mykey", &bytes];
    assert_eq!(keys.map(|key| rendezvous(None, 3).select(key)), [1, 1, 1, 1]);
    assert_eq!(keys.map(|key| rendezvous(None, 343).select(key)), [45, 291, 132, 183]);
    assert_eq!(counts(&rendezvous(None, 3), 3, "mykey:", 1000), [337, 353, 310]);
    let expected = [947, 1026, 1028, 981, 1016, 970, 1013, 939, 1023, 1057];
    assert_eq!(counts(&rendezvous(None, 10), 10, "mykey:", 10_000), expected);
}

#[test]
fn weighted_rendezvous_agrees_with_mcrouters_tests() {
    let [bytes, _] = all_bytes();
    let keys: [&[u8]; 4] = [b"sample", b"", b"mykey", &bytes];
    assert_eq!(keys.map(|key| rendezvous(Some(&[1.0; 3]), 3).select(key)), [0, 2, 1, 1]);
    assert_eq!(keys.map(|key| rendezvous(Some(&[1.0; 343]), 343).select(key)), [115, 279, 302, 142]);
    let of_three = |weights: &[f64]| counts(&rendezvous(Some(weights), 3), 3, "mykey:", 10_000);
    assert_eq!(of_three(&[1.0, 1.0, 1.0]), [3409, 3360, 3231]);
    assert_eq!(of_three(&[1.0, 0.5, 0.1]), [6292, 3118, 590]);
    assert_eq!(of_three(&[1.0, 0.0, 0.5]), [6737, 0, 3263]);
    let weights = [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5];
    let expected = [1381, 1299, 1283, 1359, 1296, 667, 669, 665, 672, 709];
    assert_eq!(counts(&rendezvous(Some(&weights), 10), 10, "mykey:", 10_000), expected);
}

#[test]
fn a_ranking_begins_with_the_choice_and_has_everybody_once() {
    for selector in [rendezvous(None, 50), rendezvous(Some(&[0.7; 50]), 50)] {
        for n in 0..1000 {
            let key = format!("key:{n}");
            let mut ranking = selector.ranking(key.as_bytes()).expect("is a Rendezvous function");
            assert_eq!(ranking[0], selector.select(key.as_bytes()));
            ranking.sort_unstable();
            assert!(ranking.into_iter().eq(0..50));
        }
    }
    assert_eq!(plain("Ch3", 3).ranking(b"key"), None);
}

#[test]
fn const_shard_agrees_with_mcrouters_tests() {
    let shards = plain("ConstShard", 4);
    let check = |key: &str, expected: usize| assert_eq!(shards.select(key.as_bytes()), expected, "{key}");
    for (key, expected) in [("b:3:meh", 3), ("bl:2:meh", 2), ("bla:1:meh", 1), ("blah:0:meh", 0)] {
        check(key, expected);
    }
    // No number between colons, or no such child: Ch3.
    for (key, expected) in [("blahmeh", 2), ("blah:meh", 0), ("blah::meh", 1), ("blah:12c34:meh", 0)] {
        check(key, expected);
    }
    check("blah:4:meh", 3);
    let ch3 = plain("Ch3", 4);
    for key in ["a:99999999999999999999999:b", "a:1", "a:-1:b", "a:+1:b", "a: 1:b", ":"] {
        check(key, ch3.select(key.as_bytes()));
    }
    check("a:0000000000000000000000002:b", 2);
}

#[test]
fn latest_agrees_with_mcrouters_tests() {
    let mut hits = [0; 4];
    for thread in 0..10_000 {
        let order = latest_order(123, thread, "", &[0.25, 0.5, 0.75, 1.0], 3).expect("is accepted");
        assert_eq!(order.len(), 3);
        hits[order[0]] += 1;
    }
    assert_eq!(hits, [959, 1888, 3073, 4080]);
}

#[test]
fn an_order_of_latest_has_everybody_once() {
    assert_eq!(latest_order(1, 0, "", &[], 5), Ok(vec![]));
    assert_eq!(latest_order(1, 0, "", &[0.0], 0), Ok(vec![0]), "one child is always asked, as in mcrouter");
    for host in 0..100 {
        let mut order = latest_order(host, 0, "salt", &[0.5; 20], usize::MAX).expect("is accepted");
        order.sort_unstable();
        assert!(order.into_iter().eq(0..20));
    }
    let refused = HashError::Weight { accepted: "from 0 to 1", found: 2.0 };
    assert_eq!(latest_order(1, 0, "", &[2.0, 0.5], 5), Err(refused));
}

#[test]
fn a_salt_stands_behind_the_key() {
    for function in ["Ch3", "Crc32", "ConstShard"] {
        let salted = HashDescription { salt: "78966653", ..description(function, 1000) };
        let salted = Selector::new(&salted).expect("is accepted");
        let bare = plain(function, 1000);
        for n in 0..1000 {
            let key = format!("a:key{n}");
            assert_eq!(salted.select(key.as_bytes()), bare.select(format!("{key}78966653").as_bytes()));
        }
        assert_eq!(salted.select(&[b'k'; 2000]), bare.select(&[&[b'k'; 2000][..], b"78966653"].concat()));
    }
    // The salt comes before the counter of a second hash.
    let weights = [0.5; 100];
    let given = HashDescription { salt: "s", weights: Some(&weights), ..description("WeightedCh3", 100) };
    let salted = Selector::new(&given).expect("is accepted");
    for n in 0..1000 {
        assert_eq!(
            salted.select(format!("{n}").as_bytes()),
            weighted(&weights).select(format!("{n}s").as_bytes())
        );
    }
    assert_eq!(host_child(123, "", 10), 3);
    assert!(host_child(123, "salt", 10) < 10);
}

#[test]
fn a_weight_that_is_missing_is_a_half() {
    let given = HashDescription { weights: Some(&[1.0]), ..description("WeightedCh3", 3) };
    let few = Selector::new(&given).expect("is accepted");
    assert_eq!(checksum(&few, "k", 1000), checksum(&weighted(&[1.0, 0.5, 0.5]), "k", 1000));
    let given = HashDescription { weights: Some(&[0.1, 0.2, 9.0]), ..description("WeightedCh3", 2) };
    let many = Selector::new(&given).expect("what is superfluous is not read");
    assert_eq!(checksum(&many, "k", 1000), checksum(&weighted(&[0.1, 0.2]), "k", 1000));
}

#[test]
fn a_wrong_description_is_refused_with_what_is_accepted() {
    #[track_caller]
    fn check(given: &HashDescription<'_>, expected: &str) {
        assert_eq!(Selector::new(given).expect_err("is refused").to_string(), expected);
    }
    check(
        &description("Md5", 3),
        "expected one of Ch3, Crc32, WeightedCh3, WeightedCh3Rv, Rendezvous, WeightedRendezvous, ConstShard, Latest, found hash function `Md5`",
    );
    check(&description("Ch3", 0), "expected 1 to 8388608 children for Ch3, found 0");
    check(&description("Ch3", CH3_COUNT_MAX + 1), "expected 1 to 8388608 children for Ch3, found 8388609");
    check(&description("WeightedCh3", 3), "expected `weights` for WeightedCh3, found none");
    let given = HashDescription { weights: Some(&[1.5]), ..description("WeightedCh3", 1) };
    check(&given, "expected a weight from 0 to 1, found 1.5");
    let given = HashDescription { weights: Some(&[f64::NAN]), ..description("WeightedCh3", 1) };
    check(&given, "expected a weight from 0 to 1, found NaN");
    check(&description("Rendezvous", 3), "expected `tags` for Rendezvous, found none");
    let given = HashDescription { tags: Some(&["a"]), ..description("Rendezvous", 3) };
    check(&given, "expected a tag for each of 3 children, found 1");
    let given =
        HashDescription { tags: Some(&["a"]), weights: Some(&[]), ..description("WeightedRendezvous", 1) };
    check(&given, "expected a weight for each of 1 children, found 0");
    let given = HashDescription {
        tags: Some(&["a"]),
        weights: Some(&[-1.0]),
        ..description("WeightedRendezvous", 1)
    };
    check(&given, "expected a weight of at least 0, found -1");
    let salt = "s".repeat(243);
    check(
        &HashDescription { salt: &salt, ..description("Ch3", 1) },
        "expected a salt of at most 242 bytes, found 243",
    );
}

#[test]
fn spooky_hash_takes_texts_of_any_length() {
    // Around the borders of 16, 32, 96 and 192 bytes: every byte counts, and so does the length.
    let text: Vec<u8> = (0..400_u32).map(|n| (n * 7) as u8).collect();
    let mut seen = std::collections::HashSet::new();
    for len in 0..text.len() {
        assert!(seen.insert(spooky64(&text[..len], 0)), "length {len}");
        for at in (0..len).step_by(5) {
            let mut changed = text[..len].to_vec();
            changed[at] ^= 1;
            assert_ne!(spooky64(&changed, 0), spooky64(&text[..len], 0), "byte {at} of {len}");
        }
    }
}
