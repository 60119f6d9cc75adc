//! The arguments of a program of benchmarks: those of Rust's own test harness, as cargo passes them, and baselines.

use std::path::PathBuf;

/// What `--help` says.
pub(super) const HELP: &str = "\
Measures GPU kernels. With `cargo bench --bench NAME -- ARGUMENTS`, or as a program of its own.

  FILTER...               measures what has one of these in its name; without any, everything
  --exact                 the name is the filter
  --skip FILTER           leaves out what has this in its name
  --list                  lists the names and measures nothing
  --bench                 measures; cargo passes it. Without it, as under `cargo test`, each is tried: see --test
  --test                  one run of each configuration, without warm-up; nothing is kept
  --runs N                so many runs of each configuration, in place of what the program says
  --processes N           measures in so many processes, one after the other; 5 with a baseline, else 1
  --save-baseline NAME    keeps the results under this name
  --baseline NAME         compares with the results of that name
  --fail-on WHAT          `inconclusive` (the default) or `slower`: what makes a comparison fail
  --folder FOLDER         keeps results here, and not in the target folder's `cuprof`
  --nocapture, --quiet, --format FORMAT, --color WHEN, --test-threads N and the like are taken and change nothing

Exit codes:
  0   measured; and with a baseline nothing is slower, and all is known
  1   slower than the baseline
  2   not known whether slower: too few processes, or too much noise (--fail-on slower makes that 0)
  3   cannot be compared: another GPU, driver, cache state, or a configuration that only one side has
  64  the arguments are not understood
  65  the baseline is absent or cannot be read, or records were lost
  69  a driver, a GPU or CUPTI is needed and absent
  70  a benchmark failed
  73  results cannot be kept
";

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Args {
    pub filters: Vec<String>,
    pub skipped: Vec<String>,
    pub exact: bool,
    pub list: bool,
    /// Without the number behind a list.
    pub terse: bool,
    pub help: bool,
    /// One run each.
    pub test: bool,
    pub runs: Option<usize>,
    pub processes: Option<usize>,
    pub save: Option<String>,
    pub baseline: Option<String>,
    /// What is not known is no failure.
    pub fail_on_slower_only: bool,
    pub folder: Option<PathBuf>,
}

/// With these, the processes of a side are as many as a comparison needs (`measurement`: at least 3, better 5).
pub(super) const BASELINE_PROCESSES: usize = 5;

/// Of Rust's test harness, without a value and with one.
const IGNORED: [&str; 8] = [
    "--nocapture",
    "--no-capture",
    "--show-output",
    "--quiet",
    "-q",
    "--include-ignored",
    "--ignored",
    "--exclude-should-panic",
];
const IGNORED_WITH_VALUE: [&str; 4] = ["--color", "--test-threads", "--logfile", "-Z"];

impl Args {
    /// Of these, without the program's name.
    ///
    /// # Errors
    /// What is not understood.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut found = Self::default();
        let mut is_bench = false;
        let mut args = args.into_iter();
        let mut only_filters = false;
        while let Some(arg) = args.next() {
            if only_filters || !arg.starts_with('-') || arg == "-" {
                found.filters.push(arg);
                continue;
            }
            let (name, given) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let has_value = given.is_some();
            let mut value = || {
                let value = given.clone().or_else(|| args.next());
                value.filter(|value| !value.is_empty()).ok_or_else(|| format!("{name} needs a value"))
            };
            match name.as_str() {
                "--skip" => found.skipped.push(value()?),
                "--runs" => found.runs = Some(number(&name, &value()?)?),
                "--processes" => found.processes = Some(number(&name, &value()?)?),
                "--save-baseline" => found.save = Some(value()?),
                "--baseline" => found.baseline = Some(value()?),
                "--folder" => found.folder = Some(value()?.into()),
                "--format" => found.terse = value()? == "terse",
                "--fail-on" => {
                    found.fail_on_slower_only = match value()?.as_str() {
                        "slower" => true,
                        "inconclusive" => false,
                        other => return Err(format!("--fail-on is slower or inconclusive, and not {other}")),
                    }
                }
                name if IGNORED_WITH_VALUE.contains(&name) => drop(value()?),
                name if has_value => return Err(format!("{name} takes no value, or is not known")),
                "--" => only_filters = true,
                "--exact" => found.exact = true,
                "--list" => found.list = true,
                "--bench" => is_bench = true,
                "--test" => found.test = true,
                "--help" | "-h" => found.help = true,
                name if IGNORED.contains(&name) => {}
                other => return Err(format!("{other} is not known")),
            }
        }
        found.test |= !is_bench;
        if found.save.is_some() && found.save == found.baseline {
            return Err("what is compared with is not to be replaced: name another baseline".to_owned());
        }
        if found.test && is_bench && (found.save.is_some() || found.baseline.is_some()) {
            return Err("--test measures nothing that could be kept or compared".to_owned());
        }
        Ok(found)
    }

    /// Whether this one is to be measured.
    pub fn takes(&self, name: &str) -> bool {
        let fits = |filter: &String| if self.exact { name == filter } else { name.contains(filter.as_str()) };
        (self.filters.is_empty() || self.filters.iter().any(fits)) && !self.skipped.iter().any(fits)
    }

    /// In how many processes.
    pub fn processes(&self) -> usize {
        let compared = self.save.is_some() || self.baseline.is_some();
        match self.processes {
            _ if self.test => 1,
            Some(processes) => processes,
            None if compared => BASELINE_PROCESSES,
            None => 1,
        }
    }
}

fn number(name: &str, text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("{name} {text} is no number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Args, String> {
        Args::parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn without_arguments_as_cargo_test_calls_it_each_is_tried_once() {
        let args = parsed(&[]).unwrap();
        assert!(args.test && args.takes("any") && args.processes() == 1);
        let args = parsed(&["--bench"]).unwrap();
        assert!(!args.test && args.processes() == 1);
        assert!(parsed(&["--bench", "--test"]).unwrap().test);
    }

    #[test]
    fn names_are_filtered_as_by_rusts_harness() {
        let args = parsed(&["--bench", "gemm", "soft", "--skip", "half"]).unwrap();
        let taken = ["gemm_f32", "softmax", "gemm_half", "copy"].map(|name| args.takes(name));
        assert_eq!(taken, [true, true, false, false]);
        let args = parsed(&["--exact", "gemm"]).unwrap();
        assert_eq!(["gemm", "gemm_f32"].map(|name| args.takes(name)), [true, false]);
        assert!(parsed(&["--", "--list"]).unwrap().filters == ["--list"]);
    }

    #[test]
    fn baselines_are_measured_in_as_many_processes_as_a_comparison_needs() {
        let args = parsed(&["--bench", "--save-baseline", "main", "--runs=7"]).unwrap();
        assert_eq!((args.save.as_deref(), args.runs, args.processes()), (Some("main"), Some(7), 5));
        let args =
            parsed(&["--bench", "--baseline=main", "--processes", "3", "--fail-on", "slower"]).unwrap();
        assert_eq!((args.baseline.as_deref(), args.processes()), (Some("main"), 3));
        assert!(args.fail_on_slower_only);
    }

    #[test]
    fn what_rusts_harness_takes_is_taken() {
        let args =
            ["--bench", "--nocapture", "--color", "always", "--test-threads=1", "-q", "--format=pretty"];
        assert_eq!(parsed(&args).unwrap(), parsed(&["--bench"]).unwrap());
        assert!(parsed(&["--list", "--format", "terse"]).unwrap().terse);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let cases: [(&[&str], &str); 9] = [
            (&["--runs", "0"], "--runs 0"),
            (&["--processes", "many"], "--processes many"),
            (&["--runs"], "--runs needs a value"),
            (&["--baseline="], "--baseline needs a value"),
            (&["--exakt"], "--exakt is not known"),
            (&["--list=yes"], "--list takes no value"),
            (&["--fail-on", "faster"], "slower or inconclusive"),
            (&["--bench", "--baseline", "a", "--save-baseline", "a"], "name another baseline"),
            (&["--bench", "--test", "--baseline", "a"], "--test measures nothing"),
        ];
        for (args, wanted) in cases {
            let error = parsed(args).unwrap_err();
            assert!(error.contains(wanted), "{args:?}: {error}");
        }
    }

    #[test]
    fn the_help_names_every_argument() {
        for name in ["--exact", "--skip", "--list", "--bench", "--test", "--runs", "--processes", "--folder"]
        {
            assert!(HELP.contains(&format!("\n  {name} ")), "{name}");
        }
    }
}
