#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _nearly_any_is_damaged = cuprof::testing::hostile::recording(bytes);
});
