//! Which kernels of an annotation count.

use regex_lite::Regex;

use crate::error::{Error, ErrorKind, Result};
use crate::table::rows::KernelName;

/// Names of kernels: one, those of a pattern, or those that a regular expression finds.
///
/// ```
/// use cuprof::bench::KernelPattern;
///
/// assert!(KernelPattern::name("fill").matches("fill(float*, int)"));
/// assert!(KernelPattern::glob("*gemm*").matches("void cutlass_gemm<float>(Params)"));
/// assert!(KernelPattern::regex("^softmax_(fwd|bwd)")?.matches("softmax_bwd(float*)"));
/// assert!(KernelPattern::regex("(").is_err());
/// # Ok::<(), cuprof::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KernelPattern(Pattern);

#[derive(Clone, Debug)]
enum Pattern {
    Name(String),
    Glob(Vec<String>),
    Regex(Regex),
}

impl KernelPattern {
    /// The kernel with this name: mangled, demangled, or demangled without its parameters.
    #[must_use]
    pub fn name(name: impl Into<String>) -> Self {
        Self(Pattern::Name(name.into()))
    }

    /// Kernels whose whole name fits, where `*` stands for any characters.
    #[must_use]
    pub fn glob(pattern: impl AsRef<str>) -> Self {
        Self(Pattern::Glob(pattern.as_ref().split('*').map(str::to_owned).collect()))
    }

    /// Kernels in whose name this regular expression is found.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where it is no regular expression.
    pub fn regex(pattern: impl AsRef<str>) -> Result<Self> {
        let pattern = pattern.as_ref();
        let regex = Regex::new(pattern).map_err(|source| {
            Error::new(ErrorKind::Config, format!("{pattern:?} is no regular expression")).with_source(source)
        })?;
        Ok(Self(Pattern::Regex(regex)))
    }

    /// Whether a name fits.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.0 {
            Pattern::Name(wanted) => {
                name == wanted || name.split_once('(').is_some_and(|(function, _)| function == wanted)
            }
            Pattern::Glob(parts) => fits(parts, name),
            Pattern::Regex(regex) => regex.is_match(name),
        }
    }
}

/// Whether the name is the parts in their order, with anything between them.
fn fits(parts: &[String], name: &str) -> bool {
    let [first, middle @ .., last] = parts else {
        return parts.first().is_some_and(|only| only == name);
    };
    let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
    for part in middle {
        let Some(at) = rest.find(part.as_str()) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last.as_str())
}

/// Which kernels count: those of the first list, or all if it is empty, without those of the second.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelFilter {
    pub only: Vec<KernelPattern>,
    pub ignored: Vec<KernelPattern>,
}

impl KernelFilter {
    pub fn takes(&self, kernel: &KernelName) -> bool {
        let among = |patterns: &[KernelPattern]| {
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
