//! What is noted beside the measurements, by the user's own functions.

use std::fmt;

use super::facts::COLLECTOR;
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

/// What a collector gave.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Notes {
    pub name: String,
    pub scope: Scope,
    pub notes: Vec<Note>,
}

/// One value of a collector, with what it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Note {
    pub config: Option<usize>,
    pub run: Option<usize>,
    pub annotation: Option<String>,
    pub value: Option<Value>,
}

impl Notes {
    /// As facts of `env`: `collector.NAME.CONFIG.RUN.ANNOTATION`, as far as the value belongs to one.
    pub fn facts(&self) -> impl Iterator<Item = (String, String)> {
        self.notes.iter().map(|Note { config, run, annotation, value }| {
            let numbers = [*config, *run].into_iter().flatten().map(|number| number.to_string());
            let at = numbers.chain(annotation.clone()).map(|at| format!(".{at}"));
            let key = format!("{COLLECTOR}{}{}", self.name, at.collect::<String>());
            (key, value.as_ref().map(ToString::to_string).unwrap_or_default())
        })
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
