//! Names, interned.
use crate::table::rows::KernelName;
use rustc_hash::FxHashMap;
use std::sync::Arc;
#[derive(Debug, Default)]
pub(crate) struct StringPool(FxHashMap<Box<[u8]>, Arc<str>>);
impl StringPool {
    pub fn intern(&mut self, bytes: &[u8]) -> Arc<str> {
        if let Some(s) = self.0.get(bytes) {
            return Arc::clone(s);
        }
        let s: Arc<str> = String::from_utf8_lossy(bytes).into();
        self.0.insert(bytes.into(), Arc::clone(&s));
        s
    }
}
#[derive(Debug, Default)]
pub(crate) struct KernelNames(FxHashMap<Box<[u8]>, Arc<KernelName>>);
impl KernelNames {
    pub fn intern(&mut self, bytes: &[u8]) -> Arc<KernelName> {
        if let Some(s) = self.0.get(bytes) {
            return Arc::clone(s);
        }
        let s: Arc<str> = String::from_utf8_lossy(bytes).into();
        let name = Arc::new(KernelName { mangled: Arc::clone(&s), demangled: s });
        self.0.insert(bytes.into(), Arc::clone(&name));
        name
    }
}
