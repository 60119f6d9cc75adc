//! What is noted beside the measurements, by the user's own functions.

use std::fmt;

use super::value::Value;

/// When a collector is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Once, before everything.
    Once,
    /// Before the first run of each configuration.
    Configuration,
    /// Before each run, after waiting for a hot GPU.
    Run,
    /// At each annotation, before its work.
    Annotation,
}

/// What a collector is called for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Occasion<'a, C> {
    /// The configuration; none for [`Scope::Once`].
    pub config: Option<&'a C>,
    /// The run of the configuration, from 0; none for [`Scope::Once`] and [`Scope::Configuration`].
    pub run: Option<usize>,
    /// The annotation; none unless [`Scope::Annotation`].
    pub annotation: Option<&'a str>,
}

/// What a collector gives: a value or an error, which becomes null and is told once.
pub(super) type Collected = Result<Value, Box<dyn std::error::Error + Send + Sync>>;

type Function<C> = dyn FnMut(&Occasion<'_, C>) -> Collected;

pub(super) struct Collector<C> {
    pub name: String,
    pub scope: Scope,
    pub function: Box<Function<C>>,
    /// Its first failure.
    pub failure: Option<String>,
}

impl<C> Collector<C> {
    pub fn collect(&mut self, occasion: &Occasion<'_, C>) -> Option<Value> {
        match (self.function)(occasion) {
            Ok(value) => Some(value),
            Err(error) => {
                self.failure.get_or_insert_with(|| error.to_string());
                None
            }
        }
    }
}

impl<C> fmt::Debug for Collector<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
