//! Which kernels of an annotation count.

use crate::pattern::Pattern;
use crate::table::rows::KernelName;

/// Which kernels count: those of the first list, or all if it is empty, without those of the second.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelFilter {
    pub only: Vec<Pattern>,
    pub ignored: Vec<Pattern>,
}

impl KernelFilter {
    pub fn takes(&self, kernel: &KernelName) -> bool {
        let among = |patterns: &[Pattern]| {
            patterns
                .iter()
                .any(|pattern| pattern.matches(&kernel.demangled) || pattern.matches(&kernel.mangled))
        };
        (self.only.is_empty() || among(&self.only)) && !among(&self.ignored)
    }

    pub fn is_empty(&self) -> bool {
        self.only.is_empty() && self.ignored.is_empty()
    }
}
