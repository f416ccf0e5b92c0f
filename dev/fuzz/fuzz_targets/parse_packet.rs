//! Any bytes as requests of the binary protocol: the properties are those of `protocol::binary::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| protocol::binary::check::check(input));
