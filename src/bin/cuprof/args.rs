//! The arguments, and what `--help` says.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use cuprof::Pattern;
use cuprof::analysis::{Filter, Moment, Section, Sort};
use cuprof::compare::{DEFAULT_BLOCK_RUNS, DEFAULT_METRIC, JoinKey};

use crate::color::Color;
use crate::{help, plot};

/// Reads what the profiler cuprof recorded, on any machine: no GPU, no driver, no CUPTI.
#[derive(Debug, Parser)]
#[command(name = "cuprof", version, max_term_width = 100)]
#[command(disable_help_subcommand = true, after_help = help::TOP, after_long_help = [help::TOP, help::EXIT_CODES].join("\n\n"))]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Where the GPU time went: ranges, kernels, transfers, devices
    #[command(after_help = help::SUMMARY)]
    Summary(Box<Summary>),
    /// What a measurement over configurations and runs has told: medians, intervals, ratios
    #[command(after_help = help::REPORT)]
    Report(Report),
    /// Whether anything is slower than before, with exit codes for CI
    #[command(after_help = help::COMPARE)]
    Compare(Box<Compare>),
    /// A trace for a timeline viewer, or stacks for a flame graph
    #[command(after_help = help::TRACE)]
    Trace(Box<Trace>),
    /// A picture: times over configurations, distributions, a roofline, kernels over time
    #[command(after_help = help::PLOT)]
    Plot(Box<plot::PlotArguments>),
    /// What keeps this machine from being profiled, and what to do about it
    #[command(after_help = help::DOCTOR)]
    Doctor,
    /// Makes a dataset of a recording
    #[command(after_help = help::REPLAY)]
    Replay(Replay),
    /// Tidies the dataset of a process that was killed, and tells what is lost
    #[command(after_help = help::RECOVER)]
    Recover(Recover),
    /// Hardware counters: which a chip has, and how many passes they take
    #[command(after_help = help::METRICS, arg_required_else_help = true)]
    Metrics(Metrics),
    /// The clocks of this machine's GPUs
    #[command(after_help = help::CLOCKS, arg_required_else_help = true)]
    Clocks {
        #[command(subcommand)]
        what: ClocksCommand,
    },
    /// Prints completions for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page, or writes the pages of all subcommands
    #[command(after_help = help::MAN)]
    Man {
        /// Folder for cuprof.1, cuprof-summary.1, and so on; created where it is not there
        #[arg(short, long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(folder))]
        output: Option<PathBuf>,
        /// Replace pages that exist
        #[arg(long, requires = "output")]
        force: bool,
    },
}

/// Datasets, and which of their rows.
#[derive(Args, Debug)]
pub struct Input {
    /// Datasets (folders named *.cuprof), or folders of them; `-` reads paths from standard input, one a line
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Only kernels whose name matches: * is any text, ? one character
    #[arg(long, value_name = "GLOB", help_heading = "Filters", value_parser = Pattern::glob)]
    pub kernel: Option<Pattern>,
    /// The same by a regular expression, which may match anywhere in the name
    #[arg(long, value_name = "REGEX", help_heading = "Filters", conflicts_with = "kernel", value_parser = Pattern::regex)]
    pub kernel_regex: Option<Pattern>,
    /// Only what was launched in ranges whose path matches, or inside of these: 'epoch/step', '*/forward'
    #[arg(long, value_name = "GLOB", help_heading = "Filters", value_parser = Pattern::glob)]
    pub range: Option<Pattern>,
    /// The same by a regular expression
    #[arg(long, value_name = "REGEX", help_heading = "Filters", conflicts_with = "range", value_parser = Pattern::regex)]
    pub range_regex: Option<Pattern>,
    /// Only these devices, by their ordinals
    #[arg(long, value_name = "N", help_heading = "Filters", value_delimiter = ',')]
    pub device: Vec<u32>,
    /// Only these streams, by CUPTI's ids
    #[arg(long, value_name = "N", help_heading = "Filters", value_delimiter = ',')]
    pub stream: Vec<u32>,
    /// Only what starts this long after T0, or later: 1.5s, 200ms, 10us, 5ns. T0 is the first record of all datasets that
    /// are named, which `cuprof summary` prints. @N is a stamp of the tables, in nanoseconds since the Unix epoch
    #[arg(long, value_name = "TIME", help_heading = "Filters", value_parser = moment)]
    pub from: Option<Moment>,
    /// Only what starts before this, which is counted in the same way
    #[arg(long, value_name = "TIME", help_heading = "Filters", value_parser = moment)]
    pub to: Option<Moment>,

    /// Exit with 0 even if records were lost
    #[arg(long)]
    pub allow_losses: bool,
}

impl Input {
    pub fn filter(&self) -> Filter {
        let mut filter = Filter::default();
        filter.kernel = self.kernel.clone().or_else(|| self.kernel_regex.clone());
        filter.range = self.range.clone().or_else(|| self.range_regex.clone());
        filter.devices.clone_from(&self.device);
        filter.streams.clone_from(&self.stream);
        (filter.from, filter.to) = (self.from, self.to);
        filter
    }
}

/// Where the result goes.
#[derive(Args, Debug)]
pub struct Destination {
    /// Write to this file instead of standard output; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an output that exists
    #[arg(long)]
    pub force: bool,
}

#[derive(Args, Debug)]
pub struct Summary {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub destination: Destination,
    /// How to print it; csv prints one section
    #[arg(short, long, value_enum, default_value_t)]
    pub format: Format,
    /// What to print; all by default, and kernels as csv
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTION")]
    pub show: Vec<Part>,
    /// What kernels are sorted by
    #[arg(long, value_enum, default_value_t)]
    pub sort: Order,
    /// Kernels and ranges to print; the rest is one line. All of them as csv and json
    #[arg(long, value_name = "N", conflicts_with = "all")]
    pub top: Option<usize>,
    /// Print all kernels and ranges
    #[arg(long)]
    pub all: bool,
    /// When to use colours
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

#[derive(Args, Debug)]
pub struct Report {
    /// The dataset of a measurement; `-` reads its path from standard input
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    #[command(flatten)]
    pub destination: Destination,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub format: ReportFormat,
    /// Exit with 0 even if records were lost
    #[arg(long)]
    pub allow_losses: bool,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a terminal
    #[default]
    Text,
    /// For GitHub
    Markdown,
    /// All aggregates, those of kernels included, with all digits
    Csv,
    /// Names, order and formulas of Nsight Python's processed data
    Compat,
}

/// How a summary is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal
    #[default]
    Text,
    /// For GitHub
    Markdown,
    /// One section with all of its columns, in nanoseconds and bytes
    Csv,
    /// All sections with all of their numbers
    Json,
}

/// A section of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Ranges in their tree
    Ranges,
    /// Kernels by name
    Kernels,
    /// Transfers by kind
    Transfers,
    /// Devices and streams
    Devices,
    /// Causes of lost records
    Losses,
}

impl From<Part> for Section {
    fn from(part: Part) -> Self {
        match part {
            Part::Ranges => Self::Ranges,
            Part::Kernels => Self::Kernels,
            Part::Transfers => Self::Transfers,
            Part::Devices => Self::Devices,
            Part::Losses => Self::Losses,
        }
    }
}

/// What kernels are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Longest total first
    #[default]
    Total,
    /// Most launches first
    Calls,
    /// Longest mean first
    Mean,
    /// Shortest minimum first
    Min,
    /// Longest maximum first
    Max,
    /// By name
    Name,
}

impl From<Order> for Sort {
    fn from(order: Order) -> Self {
        match order {
            Order::Total => Self::Total,
            Order::Calls => Self::Calls,
            Order::Mean => Self::Mean,
            Order::Min => Self::Min,
            Order::Max => Self::Max,
            Order::Name => Self::Name,
        }
    }
}

#[derive(Args, Debug)]
pub struct Compare {
    /// The side to compare with: a dataset, or a folder of one for each process run
    #[arg(value_name = "BASE")]
    pub base: PathBuf,
    /// The side that may be slower
    #[arg(value_name = "NEW", required_unless_present_any = ["annotations", "aa"])]
    pub new: Option<PathBuf>,
    /// Compare two annotations of BASE, which were measured in the same runs
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with = "new")]
    pub annotations: Option<Vec<String>>,
    /// Compare random halves of BASE's process runs with each other, 200 times: at most 5% may be SLOWER or FASTER. Six process
    /// runs are needed; of fewer, --allow-single-run compares blocks, within-run only
    #[arg(long, conflicts_with_all = ["new", "annotations"])]
    pub aa: bool,

    /// Differences up to this do not matter
    #[arg(long, value_name = "PERCENT", help_heading = "Rules", default_value = "1%", value_parser = percent)]
    pub margin: f64,
    /// Compare although this differs: bench, config, region, kernel, gpu, driver, cache, clocks, launch, fill, cupti. Of the
    /// first four, what only one side has is left out
    #[arg(long, value_name = "KEY", help_heading = "Rules", value_delimiter = ',')]
    pub allow: Vec<JoinKey>,
    /// Compare within the process runs where a side has fewer than three; others may differ from these
    #[arg(long, help_heading = "Rules")]
    pub allow_single_run: bool,
    /// Compare times alone where clocks were neither pinned nor recorded, as in traces
    #[arg(long, help_heading = "Rules")]
    pub allow_unknown_clock: bool,
    /// Let the exit code be 0, 1 or 3 even if records were lost
    #[arg(long, help_heading = "Rules")]
    pub allow_losses: bool,
    /// What the exit code is not 0 for
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Rules", default_value_t)]
    pub fail_on: FailOn,
    /// Runs that make a block; a block has one value, the mean without what is far out
    #[arg(long, value_name = "RUNS", help_heading = "Rules", default_value_t = DEFAULT_BLOCK_RUNS)]
    pub block: usize,
    /// The metric of samples, a time
    #[arg(long, value_name = "NAME", help_heading = "Rules", default_value = DEFAULT_METRIC)]
    pub metric: String,
    /// Compare each kernel of an annotation, too; of traces, each kernel is compared in any case
    #[arg(long, help_heading = "Rules")]
    pub kernels: bool,

    #[command(flatten)]
    pub destination: Destination,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub format: CompareFormat,
    /// Rows of each verdict to print; all of them as json and junit
    #[arg(long, value_name = "N", conflicts_with = "all", default_value_t = 20)]
    pub top: usize,
    /// Print all rows
    #[arg(long)]
    pub all: bool,
    /// When to use colours
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

/// How a comparison is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// For a terminal
    #[default]
    Text,
    /// For GitHub
    Markdown,
    /// For programs, with all numbers
    Json,
    /// JUnit's XML, which CI systems show as tests
    Junit,
}

/// What the exit code is not 0 for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// What is SLOWER, INCOMPARABLE or INCONCLUSIVE
    #[default]
    Inconclusive,
    /// What is SLOWER or INCOMPARABLE
    Slower,
}

#[derive(Args, Debug)]
pub struct Trace {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub destination: Destination,
    /// What to write
    #[arg(short, long, value_enum, default_value_t)]
    pub format: TraceFormat,
}

/// What a trace is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// Perfetto's protobuf, for ui.perfetto.dev and trace_processor
    #[default]
    Perfetto,
    /// Ranges and kernels as stacks with nanoseconds, for flame graphs
    Collapsed,
}

#[derive(Debug, Subcommand)]
pub enum ClocksCommand {
    /// Releases the clocks that dead processes of cuprof left pinned; nothing else is touched
    Reset,
}

#[derive(Args, Debug)]
pub struct Replay {
    /// The recording; `-` is standard input
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    /// The dataset; the recording's name with .cuprof by default
    #[arg(short, long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(folder))]
    #[arg(required_if_eq("recording", "-"))]
    pub output: Option<PathBuf>,
    /// Replace a dataset that exists
    #[arg(long)]
    pub force: bool,
    /// Exit with 0 even if records were lost
    #[arg(long)]
    pub allow_losses: bool,
}

#[derive(Args, Debug)]
pub struct Recover {
    /// The dataset
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}

#[derive(Args, Debug)]
pub struct Metrics {
    #[command(subcommand)]
    pub what: MetricsCommand,
}

#[derive(Debug, Subcommand)]
pub enum MetricsCommand {
    /// The chips that CUPTI knows
    Chips {
        /// The CUPTI library, or its folder; it is searched for by default
        #[arg(long, value_name = "PATH")]
        cupti: Option<PathBuf>,
    },
    /// The base metrics of a chip, those with all of these words
    List {
        #[command(flatten)]
        chip: Chip,
        /// Words of the name or description
        words: Vec<String>,
    },
    /// What a metric is, and its suffixes
    Describe {
        #[command(flatten)]
        chip: Chip,
        /// Metrics, with or without a suffix
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// What counting these takes: passes, units, other names, what is missing
    Plan {
        #[command(flatten)]
        chip: Chip,
        /// Metrics and presets
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// The number of passes alone
    Passes {
        #[command(flatten)]
        chip: Chip,
        /// Metrics and presets
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Named sets of metrics; needs no CUPTI
    Presets {
        /// Only these, with their metrics
        names: Vec<String>,
    },
}

/// Which chip, by which library.
#[derive(Args, Debug)]
pub struct Chip {
    /// The chip, such as GH100; the first GPU of this machine by default
    #[arg(long, value_name = "NAME")]
    pub chip: Option<String>,
    /// The CUPTI library, or its folder; it is searched for by default
    #[arg(long, value_name = "PATH")]
    pub cupti: Option<PathBuf>,
}

/// `1%` or `0.5 %`.
/// A folder that is made. `-` would be one of that name, and means standard output elsewhere.
fn folder(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.as_os_str() == "-" {
        true => Err("a folder cannot go to standard output: name it"),
        false => Ok(path),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        _ => Err(format!("{text:?} is no percentage above 0% and below 100%")),
    }
}

/// `1.5s`, `200ms`, `10us`, `5ns`, or `@1700000000000000000`.
fn moment(text: &str) -> Result<Moment, String> {
    let wrong = || {
        format!(
            "{text:?} is no time: a number with ns, us, ms or s; or @ with nanoseconds since the Unix epoch"
        )
    };
    if let Some(stamp) = text.strip_prefix('@') {
        return stamp.parse().map(Moment::SinceEpoch).map_err(|_| wrong());
    }
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let parsed = units.iter().find_map(|(unit, ns)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * ns)
    });
    match parsed {
        // CAST: checked to be in range; a fraction of a nanosecond is none
        Some(ns) if ns.is_finite() && (0.0..9e18).contains(&ns) => Ok(Moment::AfterStart(ns.round() as i64)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(moment("1.5s"), Ok(Moment::AfterStart(1_500_000_000)));
        assert_eq!(moment("200ms"), Ok(Moment::AfterStart(200_000_000)));
        assert_eq!(moment("10us"), Ok(Moment::AfterStart(10_000)));
        assert_eq!(moment("5ns"), Ok(Moment::AfterStart(5)));
        assert_eq!(moment("@-5"), Ok(Moment::SinceEpoch(-5)));
        for wrong in ["", "5", "s", "-1s", "infs", "NaNs", "1e300s", "@", "@1.5", "1 week"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_margin_is_a_percentage() {
        assert_eq!(percent("1%"), Ok(0.01));
        assert_eq!(percent("0.5 %"), Ok(0.005));
        for wrong in ["", "1", "%", "0%", "100%", "-1%", "NaN%", "inf%", "1%%"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
