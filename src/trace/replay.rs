//! A recording through the same pipeline, without a GPU.

use std::path::{Path, PathBuf};

use cupti_sys::LibraryVersion;
use rustc_hash::FxHashMap;

use super::builder::Builder;
use super::output::Output;
use super::pipeline::{Buffer, Meanings, Pipeline, Start};
use super::profile::{FinishError, Profile};
use super::worker::Ended;
use crate::capture::{Frame, Reader, Strings};
use crate::error::{Error, ErrorKind, Result, shown};
use crate::losses::Cause;
use crate::table::writer::TableSink;
use crate::units::{Nanos, ProcessEpoch};

/// Makes the tables and the profile of a recording.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
/// let profile = cuprof::Replay::open(recording)?.run()?;
/// assert!(profile.launches() > 0);
/// print!("{}", profile.summary());
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is read before `run`"]
pub struct Replay {
    recording: PathBuf,
    reader: Reader<std::io::BufReader<std::fs::File>>,
    options: Builder,
}

impl Replay {
    /// Opens a recording.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] where it cannot be opened, [`ErrorKind::Format`] where it is no recording, or one of another
    /// format version.
    pub fn open(recording: impl AsRef<Path>) -> Result<Self> {
        let recording = recording.as_ref().to_owned();
        let reader = Reader::open(&recording)?;
        Ok(Self { recording, reader, options: Builder::default() })
    }

    /// Writes the tables as Parquet parts into this folder.
    pub fn output(mut self, folder: impl AsRef<Path>) -> Self {
        self.options = self.options.output(folder);
        self
    }

    /// Whether an output that exists is replaced. Default: it is refused.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.options = self.options.overwrite(overwrite);
        self
    }

    /// Runs the recording to its end.
    ///
    /// # Errors
    /// [`FinishError`] where the output cannot be written, or the recording is cut off or damaged. It holds the
    /// profile of what could be read.
    pub fn run(mut self) -> Result<Profile, FinishError> {
        let nothing = |error| FinishError { error, profile: Box::new(Profile::empty()) };
        let (start, facts) = self.beginning().map_err(nothing)?;
        let options = self.options.writer_options(facts.clone());
        let output = Output::new(self.options.output.as_deref(), options).map_err(nothing)?;
        let mut pipeline = Pipeline::new(start, output);
        for (key, value) in facts {
            pipeline.fact(&key, &value);
        }
        let mut end = start.time;
        let mut whole = false;
        let damage = loop {
            match self.reader.next() {
                Ok(Some(Frame::Start { .. })) => break Some(self.damaged("it begins twice")),
                Ok(Some(frame)) => {
                    if let Frame::End { time } = frame {
                        (end, whole) = (time, true);
                    } else {
                        end = end.max(feed(&mut pipeline, frame));
                    }
                }
                Ok(None) if whole => break None,
                Ok(None) => break Some(self.cut_off()),
                Err(error) => break Some(error),
            }
        };
        pipeline.loss(Cause::RecordingFramesLost, u64::from(damage.is_some()));
        let finished = pipeline.finish(end);
        let closed = finished.sink.close(finished.losses, false);
        Profile::from_ended(Ended { closed, tally: finished.tally, recording_error: damage }, None)
    }

    /// How the session began, and its first facts.
    fn beginning(&mut self) -> Result<(Start, Vec<(String, String)>)> {
        let Some(Frame::Start { cupti_version, time, epoch, mut facts }) = self.reader.next()? else {
            return Err(self.cut_off());
        };
        let start =
            Start { version: LibraryVersion::from_api(cupti_version), time, epoch: ProcessEpoch(epoch) };
        let replayed = self.recording.file_name().unwrap_or_default().to_string_lossy().into_owned();
        facts.push(("replay.recording".to_owned(), replayed));
        Ok((start, facts))
    }

    fn damaged(&self, how: &str) -> Error {
        Error::new(ErrorKind::Format, format!("{} is damaged: {how}", shown(&self.recording)))
    }

    fn cut_off(&self) -> Error {
        Error::new(ErrorKind::Format, format!("{} is cut off", shown(&self.recording))).with_hint(
            "the recording program ended before its session did; what came before is in the profile",
        )
    }
}

/// Hands one frame to the pipeline. Returns the latest time that it tells.
pub(crate) fn feed<S: TableSink>(pipeline: &mut Pipeline<S>, frame: Frame<'_>) -> Nanos {
    match frame {
        Frame::Start { .. } | Frame::End { .. } => {}
        Frame::Fact { key, value } => pipeline.fact(&key, &value),
        Frame::Events { thread, name, bytes } => {
            pipeline.thread(thread, name.as_deref());
            pipeline.events(thread, &bytes);
        }
        Frame::Buffer { received, bytes, offsets, complete, strings } => {
            let buffer = Buffer { received, bytes: &bytes, offsets: &offsets, complete };
            pipeline.buffer(&buffer, &Recorded::new(&strings));
            return received;
        }
        Frame::Clock { cupti_ns, host } => {
            pipeline.clock(cupti_ns, host);
            return host;
        }
        Frame::Loss { cause, count } => {
            // A cause that this version does not know is still a loss.
            let known = Cause::ALL.iter().find(|known| known.name() == cause);
            pipeline.loss(known.copied().unwrap_or(Cause::RecordingFramesLost), count);
        }
    }
    Nanos(0)
}

/// The meanings in the recording process.
pub(super) struct Recorded<'a> {
    pointers: FxHashMap<u64, &'a [u8]>,
    calls: FxHashMap<(u32, u32), &'a str>,
}

impl<'a> Recorded<'a> {
    pub fn new(strings: &'a Strings) -> Self {
        Self {
            pointers: strings.pointers.iter().map(|(pointer, text)| (*pointer, &**text)).collect(),
            calls: strings.calls.iter().map(|call| ((call.kind, call.cbid), &*call.name)).collect(),
        }
    }
}

impl Meanings for Recorded<'_> {
    fn string(&self, pointer: u64) -> Option<&[u8]> {
        self.pointers.get(&pointer).copied()
    }

    fn call_name(&self, kind: u32, cbid: u32) -> Option<String> {
        self.calls.get(&(kind, cbid)).map(|name| (*name).to_owned())
    }
}
