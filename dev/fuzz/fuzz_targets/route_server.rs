//! Any bytes as what a server sends to a router, cut anywhere: the property is that of `router::sim::check_server`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| router::sim::check_server(input));
