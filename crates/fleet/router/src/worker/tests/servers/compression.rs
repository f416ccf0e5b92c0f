//! Pools with compression: what servers get, what clients see, and what neither can do.

use super::routes::config;
use super::{Conversation, play};
use crate::config::CompileOptions;
use crate::servers::compression::{Codec, Compression, Compressor, Dictionary};
use stdx::prng::Prng;

/// The bit 30.
const BIT: u32 = 1 << 30;

fn pool(fields: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1"], "compression": {{"flag_bit": 30, {fields}}}}},
            "B": {{"servers": ["b:1"]}}}}, "route": "PoolRoute|A"}}"#
    )
}

const LZ4: &str = r#""codec": "lz4""#;
const ZSTD: &str = r#""codec": "zstd""#;

/// What a server gets in place of a value.
fn packed(codec: Codec, dictionaries: Vec<Dictionary>, value: &[u8]) -> Vec<u8> {
    let compression = Compression { codec, flag: BIT.into(), min_len: 32, dictionaries };
    let packed = Compressor::default().pack(&compression, value).expect("is smaller").to_vec();
    packed[..packed.len() - 2].to_vec()
}

const VALUE: &str = "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc\
                     abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc";

/// The same as a server has it, with each codec.
fn both() -> [(String, Vec<u8>); 2] {
    [
        (pool(LZ4), packed(Codec::Lz4, Vec::new(), VALUE.as_bytes())),
        (pool(ZSTD), packed(Codec::Zstd(3), Vec::new(), VALUE.as_bytes())),
    ]
}

impl Conversation {
    /// Exactly these bytes have arrived.
    #[track_caller]
    fn bytes_at(&mut self, who: &str, expected: &[u8]) {
        let host = self.host(who);
        let received = std::mem::take(&mut self.world.handler::<super::End>(host).received);
        assert!(
            received == expected,
            "found {}, expected {}",
            received.escape_ascii(),
            expected.escape_ascii()
        );
    }

    fn bytes_from(&mut self, who: &str, bytes: &[u8]) {
        let host = self.host(who);
        self.world.handler::<super::End>(host).to_send.extend_from_slice(bytes);
        self.settle(host);
    }

    /// A request of the client, what the server gets, what it answers, and what the client gets.
    #[track_caller]
    fn all(&mut self, request: &str, at_server: &[u8], reply: &[u8], at_client: &str) {
        self.bytes_from("0", request.as_bytes());
        self.bytes_at("a", at_server);
        self.bytes_from("a", reply);
        self.bytes_at("0", at_client.as_bytes());
    }
}

fn joined(head: &str, value: &[u8], end: &str) -> Vec<u8> {
    [head.as_bytes(), value, end.as_bytes()].concat()
}

#[test]
fn values_are_stored_compressed_with_a_bit_that_no_client_sees() {
    for (config, stored) in both() {
        let (len, short) = (VALUE.len(), stored.len());
        let mut conversation = Conversation::new(&config);
        for command in ["set", "add", "replace"] {
            conversation.all(
                &format!("{command} k 5 60 {len}\r\n{VALUE}\r\n"),
                &joined(&format!("{command} k {} 60 {short}\r\n", BIT + 5), &stored, "\r\n"),
                b"STORED\r\n",
                "STORED\r\n",
            );
        }
        conversation.all(
            &format!("cas k 0 0 {len} 77\r\n{VALUE}\r\n"),
            &joined(&format!("cas k {BIT} 0 {short} 77\r\n"), &stored, "\r\n"),
            b"EXISTS\r\n",
            "EXISTS\r\n",
        );
        conversation.all(
            &format!("set k 5 60 {len} noreply\r\n{VALUE}\r\n"),
            &joined(&format!("set k {} 60 {short}\r\n", BIT + 5), &stored, "\r\n"),
            b"STORED\r\n",
            "",
        );
        let found =
            |cas: &str| joined(&format!("VALUE k {} {short}{cas}\r\n", BIT + 5), &stored, "\r\nEND\r\n");
        let shown = |cas: &str| format!("VALUE k 5 {len}{cas}\r\n{VALUE}\r\nEND\r\n");
        conversation.all("get k\r\n", b"get k\r\n", &found(""), &shown(""));
        conversation.all("gets k\r\n", b"gets k\r\n", &found(" 9"), &shown(" 9"));
        conversation.all("gat 10 k\r\n", b"gat 10 k\r\n", &found(""), &shown(""));
        conversation.all("gats 10 k\r\n", b"gats 10 k\r\n", &found(" 9"), &shown(" 9"));
        conversation.all("get k\r\n", b"get k\r\n", b"END\r\n", "END\r\n");
        conversation.end();
    }
}

#[test]
fn a_get_of_several_keys_has_values_of_both_kinds() {
    let [(config, stored), _] = both();
    let mut conversation = Conversation::new(&config);
    conversation.bytes_from("0", b"get k none plain\r\n");
    conversation.bytes_at("a", b"get k\r\nget none\r\nget plain\r\n");
    let first = joined(&format!("VALUE k {BIT} {}\r\n", stored.len()), &stored, "\r\nEND\r\n");
    conversation.bytes_from("a", &first);
    conversation.bytes_from("a", b"END\r\nVALUE plain 3 1\r\nx\r\nEND\r\n");
    let expected = format!("VALUE k 0 {}\r\n{VALUE}\r\nVALUE plain 3 1\r\nx\r\nEND\r\n", VALUE.len());
    conversation.bytes_at("0", expected.as_bytes());
    conversation.end();
}

#[test]
fn short_values_numbers_and_what_does_not_become_smaller_stay_as_they_are() {
    play(
        &pool(LZ4),
        "> set k 7 0 3
         > abc
         a> set k 7 0 3
         a> abc
         a< STORED
         < STORED
         > ms k 3 F7
         > abc
         a> ms k 3 F7 O1
         a> abc
         a< HD O1
         < HD
         > incr k 5
         a> incr k 5
         a< 10
         < 10
         > touch k 5
         a> touch k 5
         a< TOUCHED
         < TOUCHED
         > get k
         a> get k
         a< VALUE k 7 3\\r\\nabc\\r\\nEND
         < VALUE k 7 3
         < abc
         < END
         > delete k
         a> delete k
         a< DELETED
         < DELETED",
    );
    let mut random = Prng::new(3);
    let noise: String = (0..200).map(|_| char::from(b'!' + random.below(94) as u8)).collect();
    let mut conversation = Conversation::new(&pool(LZ4));
    let set = format!("set k 7 0 200\r\n{noise}\r\n");
    conversation.all(&set, set.as_bytes(), b"STORED\r\n", "STORED\r\n");
    assert_eq!(conversation.sample("evenkeel_route_compressions_total{result=not_smaller}"), 1.0);
    conversation.end();
}

#[test]
fn meta_requests_have_the_size_and_the_flags_of_the_value() {
    for (config, stored) in both() {
        let (len, short) = (VALUE.len(), stored.len());
        let mut conversation = Conversation::new(&config);
        let mut check = |request: &str, at_server: &[u8], reply: &[u8], at_client: &str| {
            conversation.all(request, at_server, reply, at_client);
        };
        check(
            &format!("ms k {len} T9 F5 c\r\n{VALUE}\r\n"),
            &joined(&format!("ms k {short} F{} T9 c O1\r\n", BIT + 5), &stored, "\r\n"),
            b"HD c8 O1\r\n",
            "HD c8\r\n",
        );
        check(
            &format!("ms azE= {len} b s Oq\r\n{VALUE}\r\n"),
            &joined(&format!("ms azE= {short} F{BIT} b s Oq\r\n"), &stored, "\r\n"),
            format!("HD s{short} Oq\r\n").as_bytes(),
            &format!("HD s{len} Oq\r\n"),
        );
        check(
            &format!("ms k {len} MR q\r\n{VALUE}\r\n"),
            &joined(&format!("ms k {short} F{BIT} MR O2\r\n"), &stored, "\r\n"),
            b"HD O2\r\n",
            "",
        );
        let item = |words: &str| joined(&format!("VA {short} {words}\r\n"), &stored, "\r\n");
        let f = BIT + 5;
        check(
            "mg k v\r\n",
            b"mg k v f O3\r\n",
            &item(&format!("f{f} O3")),
            &format!("VA {len}\r\n{VALUE}\r\n"),
        );
        check(
            "mg k s v t f c\r\n",
            b"mg k s v t f c O4\r\n",
            &item(&format!("s{short} t7 f{f} c8 O4")),
            &format!("VA {len} s{len} t7 f5 c8\r\n{VALUE}\r\n"),
        );
        check(
            "mg k s t\r\n",
            b"mg k s t v f O5\r\n",
            &item(&format!("s{short} t7 f{f} O5")),
            &format!("HD s{len} t7\r\n"),
        );
        check("mg k s\r\n", b"mg k s v f O6\r\n", b"VA 3 s3 f1 O6\r\nabc\r\n", "HD s3\r\n");
        check("mg k f t\r\n", b"mg k f t O7\r\n", format!("HD f{f} t7 O7\r\n").as_bytes(), "HD f5 t7\r\n");
        check("mg k t\r\n", b"mg k t O8\r\n", b"HD t7 O8\r\n", "HD t7\r\n");
        check("mg k v q\r\nmn\r\n", b"mg k v f O9\r\n", b"EN O9\r\n", "MN\r\n");
        check(
            "mg azE= b k v\r\n",
            b"mg azE= b k v f O10\r\n",
            &item(&format!("b kazE= f{f} O10")),
            &format!("VA {len} b kazE=\r\n{VALUE}\r\n"),
        );
        check("md k q\r\nmn\r\n", b"md k O11\r\n", b"HD O11\r\n", "MN\r\n");
        check("ma k\r\n", b"ma k O12\r\n", b"HD O12\r\n", "HD\r\n");
        conversation.end();
    }
}

#[test]
fn what_the_pool_cannot_do_is_refused() {
    let script = format!(
        "> set k {BIT} 0 1\\r\\nx
         < CLIENT_ERROR bit 30 of the flags is reserved for compression in this pool
         > cas k {} 0 1 7\\r\\nx
         < CLIENT_ERROR bit 30 of the flags is reserved for compression in this pool
         > ms k 1 F{BIT}\\r\\nx
         < CLIENT_ERROR bit 30 of the flags is reserved for compression in this pool
         > append k 0 0 1\\r\\nx
         < CLIENT_ERROR append and prepend are not there in a pool with compression
         > prepend k 0 0 1\\r\\nx
         < CLIENT_ERROR append and prepend are not there in a pool with compression
         > ms k 1 MA\\r\\nx
         < CLIENT_ERROR append and prepend are not there in a pool with compression
         > ms k 1 MP q\\r\\nx
         < CLIENT_ERROR append and prepend are not there in a pool with compression
         > append k 0 0 1 noreply\\r\\nx
         nothing
         > set k {} 0 1\\r\\nx
         a> set k {} 0 1
         a> x
         a< STORED
         < STORED",
        BIT + 1,
        BIT - 1,
        BIT - 1
    );
    play(&pool(ZSTD), &script);
}

#[test]
fn stored_bytes_that_no_router_has_written_are_misses() {
    let mut conversation = Conversation::new(&pool(ZSTD));
    let mut random = Prng::new(4);
    let stored = packed(Codec::Zstd(3), Vec::new(), VALUE.as_bytes());
    let mut bomb = packed(Codec::Zstd(3), Vec::new(), &vec![0; 1 << 20]);
    bomb[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut hostile = vec![Vec::new(), vec![0], bomb, stored[..stored.len() - 1].to_vec()];
    hostile.extend((0..50).map(|_| {
        let mut bytes = stored.clone();
        let from = random.below(20) as usize;
        bytes[from..].fill_with(|| random.below(256) as u8);
        bytes
    }));
    for (number, bytes) in hostile.iter().enumerate() {
        let reply = joined(&format!("VALUE k {BIT} {}\r\n", bytes.len()), bytes, "\r\nEND\r\n");
        conversation.all("get k\r\n", b"get k\r\n", &reply, "END\r\n");
        let opaque = number * 2 + 1;
        let reply =
            joined(&format!("VA {} s{} f{BIT} O{opaque}\r\n", bytes.len(), bytes.len()), bytes, "\r\n");
        let at_server = format!("mg k s v f O{opaque}\r\n");
        conversation.all("mg k s\r\n", at_server.as_bytes(), &reply, "EN\r\n");
        let opaque = number * 2 + 2;
        let reply = joined(&format!("VA {} f{BIT} O{opaque}\r\n", bytes.len()), bytes, "\r\n");
        let at_server = format!("mg k v f O{opaque}\r\n");
        conversation.all("mg k v q\r\nmn\r\n", at_server.as_bytes(), &reply, "MN\r\n");
    }
    let damaged = conversation.sample("evenkeel_route_decompressions_total{result=damaged}");
    assert_eq!(damaged as usize, hostile.len() * 3);
    conversation.end();
}

#[test]
fn servers_may_fail_be_late_or_lie() {
    play(
        &pool(ZSTD),
        "> get k
         a> get k
         a!
         < SERVER_ERROR remote error
         > mg k v
         a> mg k v f O1
         wait 1100
         < SERVER_ERROR Reply timeout
         a< EN O1
         > get k
         a> get k
         a< SERVER_ERROR x
         < SERVER_ERROR x
         > get k
         a> get k
         a< VALUE other 1073741824 1\\r\\nx\\r\\nEND
         < SERVER_ERROR remote error
         a closed",
    );
}

#[test]
fn long_values_are_held_and_those_beyond_the_limit_stay_as_they_are() {
    let mut conversation = Conversation::new(&pool(ZSTD));
    let value = "0123456789abcdef".repeat(4096);
    let stored = packed(Codec::Zstd(3), Vec::new(), value.as_bytes());
    conversation.all(
        &format!("set k 1 0 65536\r\n{value}\r\n"),
        &joined(&format!("set k {} 0 {}\r\n", BIT + 1, stored.len()), &stored, "\r\n"),
        b"STORED\r\n",
        "STORED\r\n",
    );
    conversation.all(
        "get k\r\n",
        b"get k\r\n",
        &joined(&format!("VALUE k {} {}\r\n", BIT + 1, stored.len()), &stored, "\r\nEND\r\n"),
        &format!("VALUE k 1 65536\r\n{value}\r\nEND\r\n"),
    );
    // Longer than what is copied also when it is compressed.
    let mut random = Prng::new(5);
    let noise: String = (0..65536).map(|_| char::from(b'a' + random.below(16) as u8)).collect();
    let stored_noise = packed(Codec::Zstd(3), Vec::new(), noise.as_bytes());
    assert!(stored_noise.len() > 30_000);
    conversation.all(
        "gets k\r\n",
        b"gets k\r\n",
        &joined(&format!("VALUE k {BIT} {} 9\r\n", stored_noise.len()), &stored_noise, "\r\nEND\r\n"),
        &format!("VALUE k 0 65536 9\r\n{noise}\r\nEND\r\n"),
    );
    let long = "x".repeat((1 << 20) + 1);
    let set = format!("set k 1 0 {}\r\n{long}\r\n", long.len());
    conversation.all(&set, set.as_bytes(), b"STORED\r\n", "STORED\r\n");
    assert_eq!(conversation.sample("evenkeel_route_compressions_total{result=compressed}"), 1.0);
    assert_eq!(conversation.sample("evenkeel_route_compression_bytes_total{when=before}"), 65536.0);
    let after = conversation.sample("evenkeel_route_compression_bytes_total{when=after}");
    assert_eq!(after as usize, stored.len());
    assert_eq!(conversation.sample("evenkeel_route_decompressions_total{result=decompressed}"), 2.0);
    conversation.end();
}

#[test]
fn a_configuration_without_compression_shows_values_as_they_are_stored() {
    let [(config_with, stored), _] = both();
    let mut conversation = Conversation::new(&config_with);
    let found = joined(&format!("VALUE k {BIT} {}\r\n", stored.len()), &stored, "\r\nEND\r\n");
    let shown = format!("VALUE k 0 {}\r\n{VALUE}\r\nEND\r\n", VALUE.len());
    conversation.all("get k\r\n", b"get k\r\n", &found, &shown);
    // A request ends on the plan that it began with.
    conversation.bytes_from("0", b"get k\r\n");
    conversation.bytes_at("a", b"get k\r\n");
    conversation.replace(&config("\"PoolRoute|A\""));
    conversation.bytes_from("a", &found);
    conversation.bytes_at("0", shown.as_bytes());
    conversation.bytes_from("0", b"get k\r\n");
    conversation.bytes_at("a", b"get k\r\n");
    conversation.bytes_from("a", &found);
    conversation.bytes_at("0", &found);
    // With another codec, what the first has written is read.
    conversation.replace(&pool(ZSTD));
    conversation.all("get k\r\n", b"get k\r\n", &found, &shown);
    conversation.end();
}

#[test]
fn dictionaries_come_from_whoever_reads_the_configuration() {
    let bytes: Vec<u8> = VALUE.bytes().chain(*b"and more").collect();
    let dictionary = || Dictionary::new(&bytes, Some(3)).expect("a dictionary");
    let stored = packed(Codec::Zstd(3), vec![dictionary()], VALUE.as_bytes());
    let with = pool(r#""codec": "zstd", "dictionaries": ["users.dict"]"#);
    let mut conversation = Conversation::new(&pool(ZSTD));
    let dictionaries = [("users.dict".to_owned(), Ok(bytes.clone().into()))].into();
    conversation.options = CompileOptions { dictionaries, ..CompileOptions::default() };
    let found = joined(&format!("VALUE k {BIT} {}\r\n", stored.len()), &stored, "\r\nEND\r\n");
    conversation.all("get k\r\n", b"get k\r\n", &found, "END\r\n");
    assert_eq!(conversation.sample("evenkeel_route_decompressions_total{result=no_dictionary}"), 1.0);
    conversation.replace(&with);
    conversation.all(
        &format!("set k 0 0 {}\r\n{VALUE}\r\n", VALUE.len()),
        &joined(&format!("set k {BIT} 0 {}\r\n", stored.len()), &stored, "\r\n"),
        b"STORED\r\n",
        "STORED\r\n",
    );
    let shown = format!("VALUE k 0 {}\r\n{VALUE}\r\nEND\r\n", VALUE.len());
    conversation.all("get k\r\n", b"get k\r\n", &found, &shown);
    conversation.end();
}

#[test]
fn other_routes_see_values_and_pools_with_compression_servers() {
    let route = pool(LZ4).replace(
        "\"route\": \"PoolRoute|A\"",
        r#""route": {"type": "WarmUpRoute", "cold": "PoolRoute|B", "warm": "PoolRoute|A", "exptime": 20}"#,
    );
    let stored = packed(Codec::Lz4, Vec::new(), VALUE.as_bytes());
    let mut conversation = Conversation::new(&route);
    conversation.bytes_from("0", b"get k\r\n");
    conversation.bytes_at("b", b"get k\r\n");
    conversation.bytes_from("b", b"END\r\n");
    conversation.bytes_at("a", b"get k\r\n");
    let found = joined(&format!("VALUE k {BIT} {}\r\n", stored.len()), &stored, "\r\nEND\r\n");
    conversation.bytes_from("a", &found);
    let len = VALUE.len();
    conversation.bytes_at("0", format!("VALUE k 0 {len}\r\n{VALUE}\r\nEND\r\n").as_bytes());
    conversation.bytes_at("b", format!("add k 0 20 {len}\r\n{VALUE}\r\n").as_bytes());
    conversation.bytes_from("b", b"STORED\r\n");
    assert_eq!(conversation.sample("evenkeel_route_pool_servers{pool=A}"), 1.0);
    conversation.end();
}
