//! Any bytes as requests: the properties are those of `protocol::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| protocol::fuzz::check(input));
