//! The generator of `cupti-sys`'s bindings; idle unless the feature `bindgen` is on.

fn main() {}
