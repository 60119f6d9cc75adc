mod layout;
mod refusals;
mod truth;

use std::path::Path;

use super::Measurements;
use crate::analysis::{Collection, Filter};
use crate::testing::{Measured, write_measured};

pub(super) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A metric of an annotation, in ten runs.
pub(super) fn measured(parameters: &[(&str, String)], annotation: &str, centre: f64) -> Measured {
    Measured {
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        annotation: annotation.to_owned(),
        metric: ("gpu__time_duration.sum".to_owned(), "ns".to_owned()),
        values: [1.0, 1.1, 0.9, 1.2, 1.0, 0.8, 1.1, 1.3, 0.9, 1.0].map(|part| Some(centre * part)).into(),
    }
}

/// Through a dataset, as everybody else.
pub(super) fn read(folder: &Path, measured: &[Measured]) -> Result<Measurements, Box<dyn std::error::Error>> {
    let dataset = folder.join("made.cuprof");
    write_measured(&dataset, measured, None, &[("gpu.name", "NVIDIA H200")])?;
    Ok(Measurements::read(&Collection::open([dataset])?, &Filter::default())?)
}
