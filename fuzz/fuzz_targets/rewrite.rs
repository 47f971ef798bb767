#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostile_rules::fuzz::rewrite(data));
