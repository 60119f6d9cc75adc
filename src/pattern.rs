//! Patterns of names: of kernels, ranges and configurations.

use std::fmt;

use regex_lite::Regex;

use crate::error::{Error, ErrorKind, Result};

/// Names of kernels, paths of ranges, or configurations in words: one, those like it, or those that a regular expression
/// finds.
///
/// ```
/// use cuprof::Pattern;
///
/// assert!(Pattern::name("fill").matches("fill(float*, int)"));
/// assert!(Pattern::glob("*gemm*")?.matches("void cutlass::gemm<float>(int)"));
/// assert!(Pattern::regex("^softmax_(fwd|bwd)")?.matches("softmax_bwd(float*)"));
/// assert!(Pattern::regex("(").is_err());
/// let step = Pattern::glob("epoch/step")?;
/// assert!(step.matches_path("epoch/step/forward") && !step.matches_path("epoch/stepping"));
/// # Ok::<(), cuprof::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Name,
    Glob {
        /// Matches names.
        whole: Regex,
        /// Matches paths of ranges, and those of the ranges inside.
        inside: Regex,
    },
    Regex(Regex),
}

impl Pattern {
    /// One name, whatever characters it has; of a kernel: mangled, demangled, or demangled without its parameters.
    #[must_use]
    pub fn name(name: impl Into<String>) -> Self {
        Self { text: name.into(), kind: Kind::Name }
    }

    /// A pattern as shells have it: `*` is any text, `?` any one character, everything else itself. It has to match the
    /// whole name. A path of ranges matches, too, if it lies inside of one that does.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a pattern that is too large.
    pub fn glob(pattern: &str) -> Result<Self> {
        let mut body = String::from("(?s:");
        for c in pattern.chars() {
            match c {
                '*' => body.push_str(".*"),
                '?' => body.push('.'),
                c => body.push_str(&regex_lite::escape(c.encode_utf8(&mut [0; 4]))),
            }
        }
        body.push(')');
        let whole = compiled(pattern, &format!(r"\A{body}\z"))?;
        let inside = compiled(pattern, &format!(r"\A{body}(?s:/.*)?\z"))?;
        Ok(Self { text: pattern.to_owned(), kind: Kind::Glob { whole, inside } })
    }

    /// A regular expression, which matches anywhere in a name (syntax of the crate `regex-lite`).
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where it is none, with the place.
    pub fn regex(pattern: &str) -> Result<Self> {
        Ok(Self { text: pattern.to_owned(), kind: Kind::Regex(compiled(pattern, pattern)?) })
    }

    /// Whether it is one of [`glob`](Self::glob).
    #[must_use]
    pub fn is_glob(&self) -> bool {
        matches!(self.kind, Kind::Glob { .. })
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.kind {
            Kind::Name => {
                name == self.text || name.split_once('(').is_some_and(|(function, _)| function == self.text)
            }
            Kind::Glob { whole, .. } => whole.is_match(name),
            Kind::Regex(regex) => regex.is_match(name),
        }
    }

    /// Whether a path of ranges matches, or lies inside of one that does.
    #[must_use]
    pub fn matches_path(&self, path: &str) -> bool {
        match &self.kind {
            Kind::Name => {
                path.strip_prefix(&self.text).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Kind::Glob { inside, .. } => inside.is_match(path),
            Kind::Regex(regex) => regex.is_match(path),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn compiled(pattern: &str, regex: &str) -> Result<Regex> {
    Regex::new(regex).map_err(|error| {
        Error::new(ErrorKind::Config, format!("{pattern:?} is no pattern")).with_source(error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_as_it_is() {
        let name = Pattern::name("mul*(");
        assert!(name.matches("mul*(") && !name.matches("multiply("));
        assert!(!Pattern::name("gemm").matches("gemm_tn(int)"));
        let step = Pattern::name("a/b");
        assert!(step.matches_path("a/b") && step.matches_path("a/b/c") && !step.matches_path("a/bc"));
    }

    #[test]
    fn a_glob_matches_as_a_whole_and_across_lines() -> Result<()> {
        for (glob, name, matches) in [
            ("mu?", "mul", true),
            ("mu?", "mull", false),
            ("a*b*c", "a.b.bc", true),
            ("a*b*c", "acb", false),
            ("*", "", true),
            ("*b", "a\nb", true),
            ("a.c", "abc", false),
        ] {
            assert_eq!(Pattern::glob(glob)?.matches(name), matches, "{glob} {name:?}");
        }
        Ok(())
    }
}
