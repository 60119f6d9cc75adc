//! The names of launched functions, as launches and records tell them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::delivered::Meanings;
use crate::names::KernelNames;
use crate::table::rows::KernelName;
use crate::units::SymbolId;

/// Symbols, and pointers to names, that are remembered before their table starts afresh.
const MAX_REMEMBERED: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Kernels {
    names: KernelNames,
    by_pointer: FxHashMap<u64, Arc<KernelName>>,
    by_symbol: FxHashMap<SymbolId, Arc<KernelName>>,
}

impl Kernels {
    /// A thread tells what it calls this symbol.
    pub fn tell(&mut self, symbol: SymbolId, name: &[u8]) {
        if self.by_symbol.len() >= MAX_REMEMBERED {
            self.by_symbol.clear();
        }
        self.by_symbol.insert(symbol, self.names.intern(name));
    }

    /// The name at the launch, or else (a graph) the one that the record points to. A pointer can be used again for
    /// another name (a module was unloaded), so the text is compared each time.
    pub fn name(
        &mut self,
        symbol: Option<SymbolId>,
        pointer: u64,
        meanings: &impl Meanings,
    ) -> Arc<KernelName> {
        if let Some(name) = symbol.and_then(|symbol| self.by_symbol.get(&symbol)) {
            return Arc::clone(name);
        }
        let bytes = meanings.string(pointer).unwrap_or(b"(unknown)");
        if let Some(name) = self.by_pointer.get(&pointer)
            && name.mangled.as_bytes() == bytes
        {
            return Arc::clone(name);
        }
        let name = self.names.intern(bytes);
        if self.by_pointer.len() >= MAX_REMEMBERED {
            self.by_pointer.clear();
        }
        self.by_pointer.insert(pointer, Arc::clone(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pointer is to the same name.
    struct OneName;

    impl Meanings for OneName {
        fn string(&self, _: u64) -> Option<&[u8]> {
            Some(b"kernel")
        }

        fn call_name(&self, _: u32, _: u32) -> Option<String> {
            None
        }
    }

    #[test]
    fn symbols_and_pointers_without_end_take_no_memory_without_end() {
        let mut kernels = Kernels::default();
        for number in 1..=3 * MAX_REMEMBERED as u32 {
            kernels.tell(SymbolId::from_raw(number).expect("not 0"), b"kernel");
            kernels.name(None, number.into(), &OneName);
            assert!(kernels.by_symbol.len() <= MAX_REMEMBERED && kernels.by_pointer.len() <= MAX_REMEMBERED);
        }
    }
}
