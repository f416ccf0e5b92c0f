//! Any bytes as replies of the binary protocol, cut anywhere: the properties are those of `protocol::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| protocol::fuzz::check_packets(input));
