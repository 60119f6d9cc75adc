//! Measurements, counters and traces as pictures: SVG and PNG (feature `plot`).
//!
//! A picture is laid out by the widths of its letters, so that no label covers another, whatever the names and however
//! many the configurations. It has an opaque background, and colours that people who see few of them tell apart. The same
//! files give the same bytes.
//!
//! | picture | of | drawn by |
//! |---|---|---|
//! | a metric over configurations, with intervals | `samples`, `aggregates` | [`Measurements::times`] |
//! | the distribution of the runs | `samples` | [`Measurements::distribution`] |
//! | a roofline, with the peaks that were counted | `metrics` | [`roofline`] |
//! | the share of each kernel over time | `launches` | [`kernel_share`] |
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
//! # let folder = tempfile::tempdir()?;
//! # let output = folder.path().join("run.cuprof");
//! # cuprof::Replay::open(recording)?.output(&output).run()?;
//! use cuprof::analysis::{Collection, Filter};
//! use cuprof::plot::{Share, kernel_share};
//!
//! let collection = Collection::open([&output])?;
//! let plot = kernel_share(&collection, &Filter::default(), &Share::default())?;
//! std::fs::write(folder.path().join("share.svg"), plot.to_svg())?;
//! std::fs::write(folder.path().join("share.png"), plot.to_png(2.0)?)?;
//! # Ok(())
//! # }
//! ```

mod arrange;
mod axes;
mod distribution;
mod font;
mod frame;
mod measurements;
mod png;
mod roofline;
mod scale;
mod scene;
mod share;
mod svg;
#[cfg(test)]
mod tests;
mod theme;
mod times;
mod unit;

use std::path::Path;

use self::scene::Scene;
use crate::error::{Error, ErrorKind, Result};

pub use distribution::Distribution;
pub use frame::{DEFAULT_WIDTH, Style};
pub use measurements::Measurements;
pub(crate) use measurements::{Told, Value};
pub use roofline::roofline;
pub use scale::Spacing;
pub use share::{DEFAULT_KERNELS, Share, kernel_share};
pub use theme::Theme;
pub use times::{Form, Statistic, Times};

/// Pixels of a PNG for each unit of a picture.
pub const DEFAULT_PIXEL_RATIO: f64 = 2.0;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    scene: Scene,
}

impl Plot {
    /// As SVG: shapes and texts, nothing that has to be fetched. Texts are in the first of DejaVu Sans, Verdana, Helvetica
    /// and Arial that the viewer has.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::svg(&self.scene)
    }

    /// As PNG with so many pixels for each unit; letters are those of the crate's own font.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) for a picture with a side of more than 16 384 pixels.
    pub fn to_png(&self, ratio: f64) -> Result<Vec<u8>> {
        png::png(&self.scene, ratio)
    }

    /// Letters that a PNG shows as boxes, since the crate's own font does not have them; an SVG leaves them to its viewer.
    #[must_use]
    pub fn boxed_letters(&self) -> Vec<char> {
        let mut letters: Vec<char> =
            self.scene.labels().flat_map(|label| label.text.chars()).filter(|c| !font::has(*c)).collect();
        letters.sort_unstable();
        letters.dedup();
        letters
    }

    /// Width and height in units, which are the pixels of an SVG.
    #[must_use]
    pub fn size(&self) -> (f64, f64) {
        (self.scene.width, self.scene.height)
    }

    /// Writes it as the name of the file ends: `.svg` or `.png`.
    ///
    /// # Errors
    /// [`OutputExists`](ErrorKind::OutputExists) where the file is there already; [`Config`](ErrorKind::Config) for another
    /// end; [`Io`](ErrorKind::Io).
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let end = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
        let bytes = match end.as_deref() {
            Some("svg") => self.to_svg().into_bytes(),
            Some("png") => self.to_png(DEFAULT_PIXEL_RATIO)?,
            _ => {
                let what = format!("{} does not end in .svg or .png", path.display());
                return Err(Error::new(ErrorKind::Config, what));
            }
        };
        let mut file = std::fs::File::create_new(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Error::new(ErrorKind::OutputExists, format!("{} exists", path.display()))
            }
            _ => Error::io("cannot create", path, error),
        })?;
        std::io::Write::write_all(&mut file, &bytes).map_err(|error| Error::io("cannot write", path, error))
    }
}
