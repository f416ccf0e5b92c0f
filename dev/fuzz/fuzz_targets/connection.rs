//! Any bytes as a conversation, cut anywhere: the property is that of `server::sim::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| server::sim::check(input));
