//! Why a filter finds nothing.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::filter::Filter;
use crate::error::Result;
use crate::pattern::Pattern;
use crate::summary::text::one_line;
use crate::table::collection::Collection;

/// Names that are told.
const NEAR: usize = 3;

/// Names that are less alike are not near (Jaro-Winkler).
const ALIKE: f64 = 0.7;

impl Collection {
    /// Why a filter finds nothing, a sentence each, with names that are near. For after nothing was found: reads all
    /// names and times once more.
    ///
    /// # Errors
    /// As [`digest`](Self::digest).
    pub fn unmatched(&self, filter: &Filter) -> Result<Vec<String>> {
        let all = self.digest(&Filter::default(), &|_, _| {})?;
        let mut told = Vec::new();
        if let Some(pattern) = &filter.kernel {
            let names: Vec<&str> = all.kernels.iter().map(|kernel| &*kernel.name).collect();
            told.extend(no_match("kernel", pattern, &names, |name| pattern.matches(name)));
        }
        if let Some(pattern) = &filter.range {
            let paths: Vec<&str> = all.ranges.iter().map(|range| &*range.path).collect();
            told.extend(no_match("range path", pattern, &paths, |path| pattern.matches_path(path)));
        }
        let streams = all.devices.iter().flat_map(|device| &device.streams).map(|stream| stream.stream);
        told.extend(no_number("device", &filter.devices, all.devices.iter().map(|device| device.device)));
        told.extend(no_number("stream", &filter.streams, streams));
        if told.is_empty() {
            let until = all.start_ns.zip(all.first_ns).map(|(start, first)| {
                let end = first.saturating_add(all.counts.span_ns).saturating_sub(start);
                // CAST: for people
                format!("; the last kernel or transfer ends {} ms after T0", end as f64 / 1e6)
            });
            let until = until.filter(|_| filter.from.is_some() || filter.to.is_some()).unwrap_or_default();
            told.push(format!("no kernel or transfer meets all of it: {filter}{until}"));
        }
        Ok(told)
    }
}

/// What to say where no name matches.
fn no_match(what: &str, pattern: &Pattern, names: &[&str], matches: impl Fn(&str) -> bool) -> Option<String> {
    if names.iter().any(|name| matches(name)) {
        return None;
    }
    let text = pattern.to_string();
    let bare: String = text.chars().filter(|c| !"*?".contains(*c)).collect();
    // One that matches anywhere already needs no advice how to.
    let how = match pattern.is_glob() && !(text.starts_with('*') && text.ends_with('*')) {
        true => format!("; it has to match as a whole, and '*{bare}*' matches {bare} anywhere"),
        false => String::new(),
    };
    let near = near(&bare, names);
    let near = if near.is_empty() { String::new() } else { format!("; near are {}", near.join(" | ")) };
    Some(format!("no {what} matches {pattern}{how}{near}"))
}

/// The names that have the text, then those that are alike.
fn near(text: &str, names: &[&str]) -> Vec<String> {
    let text = text.to_lowercase();
    let mut near: Vec<(bool, f64, &str)> = names
        .iter()
        .map(|name| {
            let lower = name.to_lowercase();
            // The last part of a path, or a name without its parameters.
            let short = lower.rsplit('/').next().unwrap_or(&lower);
            let short = short.split(['(', '<']).next().unwrap_or(short);
            (lower.contains(&text), strsim::jaro_winkler(&text, short), *name)
        })
        .filter(|(has, alike, _)| *has || *alike >= ALIKE)
        .collect();
    near.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(b.2)));
    near.into_iter().take(NEAR).map(|(.., name)| one_line(name)).collect()
}

/// What to say where none of these is there.
fn no_number<T: Display + Ord + Copy>(
    what: &str,
    wanted: &[T],
    there: impl Iterator<Item = T>,
) -> Option<String> {
    let there: BTreeSet<T> = there.collect();
    if wanted.is_empty() || wanted.iter().any(|number| there.contains(number)) {
        return None;
    }
    let list = |numbers: &mut dyn Iterator<Item = &T>| {
        numbers.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let (wanted, there) = (list(&mut wanted.iter()), list(&mut there.iter()));
    let others = if there.is_empty() { "nor any other".to_owned() } else { format!("only {there}") };
    Some(format!("there is no {what} {wanted}, {others}"))
}
