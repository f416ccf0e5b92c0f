//! Any bytes as a configuration of a router, with imports: the property is that of `router::sim::check_config`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| router::sim::check_config(input));
