//! Names of kernels, and texts in general: each distinct one is kept, and demangled, once.

use std::fmt::{self, Write};
use std::sync::Arc;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use rustc_hash::FxHashMap;

use crate::table::rows::KernelName;

/// Distinct names that are remembered; one more, and the memory starts afresh.
///
/// A program that makes kernels at run time without end then costs some demangling, and never grows.
pub(crate) const MAX_NAMES: usize = 65_536;

/// Bytes of names that are remembered, to the same end.
pub(crate) const MAX_NAME_BYTES: usize = 32 << 20;

/// Longer names are not demangled. No reader would want to see the result, and it may be much longer still.
pub(crate) const MAX_MANGLED_BYTES: usize = 16 << 10;

/// A demangled name that grows beyond this is given up: back references can double the text again and again.
pub(crate) const MAX_DEMANGLED_BYTES: usize = 64 << 10;

/// How deep the demanglers may recurse. A template inside a template takes a few steps, so that the layouts of
/// CUTLASS fit; twice as much overflows a stack of 2 MiB in an unoptimised build.
const MAX_NESTING: u32 = 128;

/// The names of kernels, by their bytes.
///
/// A name that was seen before costs one hash of its bytes and no allocation.
#[derive(Default)]
pub(crate) struct KernelNames {
    names: Bounded<[u8], Arc<KernelName>>,
}

impl KernelNames {
    /// The name that these bytes spell. NUL and what is not UTF-8 becomes U+FFFD.
    pub fn intern(&mut self, bytes: &[u8]) -> Arc<KernelName> {
        self.names.get_or_insert(bytes, || {
            let mangled: Arc<str> = readable(bytes).into();
            let demangled = demangle(&mangled).map_or_else(|| mangled.clone(), Into::into);
            let cost = mangled.len() + demangled.len();
            (Arc::new(KernelName { mangled, demangled }), cost)
        })
    }
}

/// Texts of other kinds, by their content.
#[derive(Default)]
pub(crate) struct StringPool {
    texts: Bounded<str, Arc<str>>,
}

impl StringPool {
    /// The one shared copy of a text.
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        self.texts.get_or_insert(text, || (text.into(), text.len()))
    }
}

/// A memory that forgets everything when it is full. What was handed out stays valid; the next use of an old key
/// makes a new, equal value.
struct Bounded<K: ?Sized, V> {
    values: FxHashMap<Box<K>, V>,
    bytes: usize,
}

impl<K: ?Sized, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self { values: FxHashMap::default(), bytes: 0 }
    }
}

impl<K, V: Clone> Bounded<K, V>
where
    K: ?Sized + Eq + std::hash::Hash + AsRef<[u8]>,
    for<'a> Box<K>: From<&'a K>,
{
    /// The value of a key; a new one comes with the bytes that it takes beside the key.
    fn get_or_insert(&mut self, key: &K, make: impl FnOnce() -> (V, usize)) -> V {
        if let Some(value) = self.values.get(key) {
            return value.clone();
        }
        let (value, bytes) = make();
        let bytes = bytes + key.as_ref().len();
        if self.values.len() >= MAX_NAMES || self.bytes + bytes > MAX_NAME_BYTES {
            self.values.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.values.insert(key.into(), value.clone());
        value
    }
}

fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// The name as people write it; none if it is not mangled, or not to be demangled within the bounds.
fn demangle(name: &str) -> Option<String> {
    if name.len() > MAX_MANGLED_BYTES {
        return None;
    }
    if name.starts_with("_R") || is_legacy_rust(name) {
        let symbol = rustc_demangle::try_demangle(name).ok()?;
        let mut out = Limited::default();
        write!(out, "{symbol:#}").ok()?; // `#` leaves the hash away
        return Some(out.text);
    }
    if !name.starts_with("_Z") {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(MAX_NESTING);
    let symbol = Symbol::new_with_options(name, &parse).ok()?;
    let show = DemangleOptions::new().recursion_limit(MAX_NESTING);
    let mut out = Limited::default();
    symbol.structured_demangle(&mut out, &show).ok()?;
    Some(out.text)
}

/// Rust's older mangling looks like C++ but for the hash at its end: `17h`, sixteen digits, `E`.
fn is_legacy_rust(name: &str) -> bool {
    let hash = name.strip_prefix("_ZN").and_then(|name| name.strip_suffix('E')).and_then(|name| {
        let (_, hash) = name.split_at_checked(name.len().checked_sub(19)?)?;
        hash.strip_prefix("17h")
    });
    hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A text that refuses to grow too long.
#[derive(Default)]
struct Limited {
    text: String,
}

impl Write for Limited {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > MAX_DEMANGLED_BYTES {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use proptest::prelude::*;

    fn demangled(name: &str) -> String {
        KernelNames::default().intern(name.as_bytes()).demangled.to_string()
    }

    #[test]
    fn names_are_shown_as_people_write_them() {
        for (mangled, wanted) in [
            ("_Z3addPfS_i", "add(float*, float*, int)"),
            ("_ZN3lib6kernelILi3EfEEvPT0_", "void lib::kernel<3, float>(float*)"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
            ("_Zebra", "_Zebra"),
            ("_ZN9truncated", "_ZN9truncated"),
            ("_Z3addPfS_i and more", "_Z3addPfS_i and more"),
            ("größe", "größe"),
            ("", ""),
        ] {
            assert_eq!(demangled(mangled), wanted, "{mangled}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_marked() {
        let name = KernelNames::default().intern(b"a\0b\xffc");
        assert_eq!(&*name.mangled, "a\u{fffd}b\u{fffd}c");
        assert_eq!(name.mangled, name.demangled);
    }

    #[test]
    fn equal_names_are_one() {
        let mut names = KernelNames::default();
        let (a, b) = (names.intern(b"_Z3addPfS_i"), names.intern(b"_Z3addPfS_i"));
        assert!(Arc::ptr_eq(&a, &b));
        let mut pool = StringPool::default();
        assert!(Arc::ptr_eq(&pool.intern("step"), &pool.intern("step")));
    }

    #[test]
    fn a_memory_that_is_full_starts_afresh_and_old_names_stay_valid() {
        let mut names = KernelNames::default();
        let first = names.intern(b"first");
        for i in 0..MAX_NAMES {
            names.intern(i.to_string().as_bytes());
        }
        assert!(names.names.values.len() <= MAX_NAMES);
        let again = names.intern(b"first");
        assert_eq!(first, again);
        assert!(!Arc::ptr_eq(&first, &again));

        let mut pool = StringPool::default();
        for i in 0..100 {
            pool.intern(&format!("{i}{}", "x".repeat(1 << 20)));
            assert!(pool.texts.bytes <= MAX_NAME_BYTES + (3 << 20));
        }
    }

    #[test]
    fn hostile_names_take_neither_the_stack_nor_the_time() {
        let nested = |depth: usize| format!("_Z1f{}i{}", "1AI".repeat(depth), "E".repeat(depth));
        let pointers = |depth: usize| format!("_Z1f{}i", "P".repeat(depth));
        // Each argument is a pair of the one before: the text doubles every time.
        let doubling = |n: usize| {
            let pairs =
                (0..n).map(|i| if i == 0 { "1AIiiE".to_owned() } else { format!("S_IS{}_S{0}_E", i - 1) });
            format!("_Z1f{}", pairs.collect::<String>())
        };
        let backwards = |n: usize| format!("_RINvC1a1f{}E", "TB9_B9_E".repeat(n));
        let names = [
            nested(10),
            nested(2_000),
            nested(25_000),
            pointers(15_000),
            pointers(100_000),
            doubling(30),
            doubling(1_000),
            backwards(10),
            backwards(1_000),
            format!("_ZN{}E", "1a".repeat(8_000)),
            "_Z".repeat(8_000),
            "x".repeat(100_000),
        ];
        let start = Instant::now();
        for name in &names {
            let known = KernelNames::default().intern(name.as_bytes());
            assert_eq!(*known.mangled, **name);
            assert!(known.demangled.len() <= MAX_DEMANGLED_BYTES.max(name.len()));
        }
        assert!(demangled(&nested(12)).starts_with("f(A<A<A<"));
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_name(bytes in prop::collection::vec(any::<u8>(), 0..80), mangled in any::<bool>()) {
            let bytes = if mangled { [b"_ZN", &bytes[..]].concat() } else { bytes };
            let name = KernelNames::default().intern(&bytes);
            prop_assert!(!name.mangled.contains('\0') && name.demangled.len() <= MAX_DEMANGLED_BYTES);
        }

        #[test]
        fn anything_that_looks_mangled_is_survived(name in "_(Z|ZN|R)[NIESTPKRvifa0-9_B]{0,60}") {
            KernelNames::default().intern(name.as_bytes());
        }
    }
}
