//! Kept files that a test compares with what it makes: whether it writes them anew.

use std::ffi::OsStr;

/// `CUPROF_BLESS=1` asks for it; any other value does not.
pub fn is_asked_for() -> bool {
    is_yes(std::env::var_os("CUPROF_BLESS").as_deref())
}

fn is_yes(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| value == "1")
}

#[test]
fn only_1_writes_kept_files_anew() {
    assert!(is_yes(Some(OsStr::new("1"))));
    for no in [None, Some(""), Some("0"), Some("false"), Some("yes")] {
        assert!(!is_yes(no.map(OsStr::new)), "{no:?}");
    }
}
