//! Keeps the code that CUPTI calls where it is.
//!
//! Where this crate is part of a shared library, the program may close that library. CUPTI cannot be told to forget
//! the functions that give it buffers, and calls them after a session, too; the session's threads run on.

use std::sync::Once;

use libloading::os::unix::{Library, RTLD_LAZY};

/// Opens only what is open already.
const RTLD_NOLOAD: i32 = 4;
/// Never unloads it, whoever closes it.
const RTLD_NODELETE: i32 = 0x1000;

/// From here on, the library that this code is in stays loaded. For a program, which does anyway, nothing.
pub(super) fn keep_loaded() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let Some(path) = file_at(&maps, keep_loaded as fn() as usize) else { return };
        // SAFETY: nothing is loaded, so nothing of the library runs.
        let library = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) };
        // Of a program that fails, and it need not be kept.
        library.into_iter().for_each(std::mem::forget);
    });
}

/// The file that is mapped at an address: `start-end perms offset device inode path`.
fn file_at(maps: &str, address: usize) -> Option<&str> {
    let line = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bound = |text: &str| usize::from_str_radix(text, 16).ok();
        range.and_then(|(start, end)| Some((bound(start)?..bound(end)?).contains(&address))) == Some(true)
    })?;
    line.find('/').map(|start| &line[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_at_an_address_is_found() {
        let maps =
            "7f00-7f10 r-xp 00000000 08:01 42    /opt/lib/my plugin.so\n7f10-7f20 rw-p 00000000 00:00 0 \n";
        assert_eq!(file_at(maps, 0x7f0f), Some("/opt/lib/my plugin.so"));
        assert_eq!(file_at(maps, 0x7f10), None);
        assert_eq!(file_at(maps, 0x8000), None);
        keep_loaded(); // of a program: nothing happens
    }
}
