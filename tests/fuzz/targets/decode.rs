#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cuprof::testing::hostile::decode(bytes));
