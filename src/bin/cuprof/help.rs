//! What `--help` says below the options: examples first, then what a reader needs to know.
//!
//! Examples and tables are indented, and as wide as the manual has room for. Paragraphs are one line each, which is wrapped
//! where it is shown.

pub const TOP: &str = "\
Examples:
  cuprof summary run.cuprof                where the GPU time went
  cuprof compare before/ after/            whether anything became slower
  cuprof trace run.cuprof -o run.pftrace   for ui.perfetto.dev
  cuprof plot sweep.cuprof -o sweep.svg    times, with their intervals
  cuprof replay run.cuprofrec              a dataset of a recording
  cuprof doctor                            what keeps it from working

`cuprof COMMAND --help` has more of them.

Datasets, *.cuprof, are written by the programs themselves, which start a session of the library: \
Profiler::builder().output(\"run.cuprof\").start(). Nothing here starts a program, as `nsys profile` does.";

pub const SUMMARY: &str = "\
Examples:
  cuprof summary run.cuprof
  cuprof summary runs/              all *.cuprof in a folder, summed up
  cuprof summary run.cuprof --kernel '*gemm*' --sort max
  cuprof summary run.cuprof --range 'epoch/step' --from 1s --to 2.5s
  cuprof summary run.cuprof --format csv --show ranges > ranges.csv
  cuprof summary run.cuprof --format json | jq '.kernels[0]'
  ls -d */*.cuprof | cuprof summary -

In the tree of ranges, GPU time is that of all kernels launched inside, and Self what is left without nested ranges. \
Span runs from the first start to the last end of an instance's kernels. With --kernel, --device or --stream, ranges are \
those paths that launched such a kernel; Calls, and the number of ranges at the top, are all instances of these paths.

Busy time of a device is when at least one kernel or transfer ran on it; gaps are the times without any. Of several \
datasets, [2] is the second that the head names.

On a terminal, control characters in names are shown as escapes, in csv too; files and pipes get csv as it is.";

pub const REPORT: &str = "\
Examples:
  cuprof report sweep.cuprof
  cuprof report sweep.cuprof --format markdown > sweep.md
  cuprof report sweep.cuprof --format compat -o processed.csv

It reads what Bench::output or bench::Report::write wrote, and prints what the report itself prints, byte for byte; a terminal gets \
control characters of names as escapes.";

pub const COMPARE: &str = "\
Examples:
  cuprof compare before/ after/       folders with a *.cuprof of each run
  cuprof compare before/ after/ --format junit -o compare.xml
  cuprof compare before/ after/ --allow driver    after an update of it
  cuprof compare before/ after/ --fail-on slower  the unknown passes
  cuprof compare runs/ --annotations old new      both of the same runs
  cuprof compare runs/ --aa           whether verdicts can be trusted

A verdict needs three process runs a side, better five: what differs from one start of a process to the next is mostly \
more than what differs within. Each process run is a dataset; a baseline is a folder of them that was kept.

  SLOWER        all of the change's 95% interval is above the margin
  FASTER        it is below
  SAME          it is inside
  INCONCLUSIVE  it reaches over the margin, or too little was measured
  INCOMPARABLE  one side lacks it, or a key differs, which is named

Unless clocks were pinned, a verdict has to hold in cycles, too. Of many rows called SLOWER, 5% at most are false. More \
runs help what is INCONCLUSIVE.

Exit codes, the first that applies:
  65  the input cannot be read; or records were lost, and it is not
      --allow-losses
  1   something is SLOWER
  3   something is INCOMPARABLE
  2   something is INCONCLUSIVE, or there is nothing, and it is not
      --fail-on slower
  0   else

Of --aa: 65 as above; 2 if more than 5% are called SLOWER or FASTER, or if there are fewer than six process runs to \
split and it is not --allow-single-run; 0 else.";

pub const TRACE: &str = "\
Examples:
  cuprof trace run.cuprof --output run.pftrace    for ui.perfetto.dev
  cuprof trace run.cuprof --from 2s --to 2.1s -o part.pftrace
  cuprof trace run.cuprof --format collapsed | flamegraph.pl > run.svg

Threads have their ranges, launching calls and marks; devices have their streams; arrows lead from a launching call to \
its kernel. The runs of a measurement have a track, and their clocks, temperature and power are counters.

A viewer counts from the first thing that is drawn: without filters that is T0, or a launching call before it. Its raw \
stamps are nanoseconds since the Unix epoch, which --from @N takes. Viewers hold about a gigabyte: take a part of a long \
run by --from and --to.";

pub const CLOCKS: &str = "\
Examples:
  cuprof clocks reset";

pub const DOCTOR: &str = "\
Exits with 1 where a session could not start here.";

pub const REPLAY: &str = "\
Examples:
  cuprof replay run.cuprofrec     writes run.cuprof, prints its summary
  cuprof replay run.cuprofrec --output /tmp/a.cuprof --force

A recording is made with Builder::record. Replaying runs it through the same code as a live session, on any machine.";

pub const RECOVER: &str = "\
Examples:
  cuprof recover run.cuprof

Finished parts can be read without this. It removes what was not finished, sets aside what keeps readers from the rest, \
and never touches files that are not of a dataset. A second call finds nothing to do, and tells once more what is missing.";

pub const METRICS: &str = "\
Examples:
  cuprof metrics chips
  cuprof metrics list --chip GH100 dram bytes
  cuprof metrics describe --chip GH100 dram__bytes_read.sum
  cuprof metrics plan --chip GH100 headline sm__inst_executed.sum
  cuprof metrics passes --chip GH100 roofline

Without --chip it is the first GPU of this machine. An H100 or H200 is GH100. Names come from CUPTI's libraries, which \
need no GPU: pip install 'nvidia-cuda-cupti==13.1.*', and CUPROF_CUPTI_PATH (or --cupti) names their folder.";

pub const COMPLETIONS: &str = "\
Examples:
  cuprof completions fish > ~/.config/fish/completions/cuprof.fish
  cd ~/.local/share/bash-completion/completions
  cuprof completions bash > cuprof";

pub const MAN: &str = "\
Examples:
  cuprof man | man -l -
  cuprof man --output ~/.local/share/man/man1";

pub const EXIT_CODES: &str = "\
Exit codes:
  0    done; compare: nothing is slower
  1    compare: something is SLOWER; doctor: no session could start here
  2    compare: something is INCONCLUSIVE, and nothing SLOWER or
       INCOMPARABLE (--fail-on slower makes that 0)
  3    compare: something is INCOMPARABLE, and nothing SLOWER
  64   the arguments are not understood
  65   the input cannot be read; or records were lost, and what was
       printed is incomplete (--allow-losses makes that 0)
  69   a driver, a GPU, CUPTI or NVML is needed, and it is absent or in
       use, or it fails
  70   a fault of this program
  73   the output exists (--force replaces it) or cannot be created
  74   the output could not be written to its end
  130  interrupted by Ctrl-C, with nothing half written left
       (129: SIGHUP, 143: SIGTERM)";

pub const PLOT: &str = "\
Examples:
  cuprof plot sweep.cuprof -o sweep.svg             times and intervals
  cuprof plot sweep.cuprof -o sweep.png --x n --columns dtype
  cuprof plot sweep.cuprof -o ratio.png --relative-to fp32 --theme dark
  cuprof plot sweep.cuprof -o runs.svg --kind samples --range gemm
  cuprof plot counted.cuprof -o roofline.svg --kind roofline
  cuprof plot run.cuprof -o kernels.svg --kind share --from 1s --to 2s
  cuprof plot run.cuprof > run.svg

Parameters of configurations that are neither along the axis nor panels are series of their own, as are annotations. \
--range chooses annotations, --kernel the times of single kernels. A file has the form that its name ends in, .svg or \
.png; standard output is SVG unless --format says otherwise.

The time of a share begins at the first kernel that is drawn, of several datasets each at its own: 0 is not T0, from \
which --from and --to count.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::args::Arguments;

    #[test]
    fn help_keeps_its_form_on_a_narrow_terminal_and_in_the_manual() {
        let mut unseen = vec![Arguments::command()];
        while let Some(command) = unseen.pop() {
            unseen.extend(command.get_subcommands().cloned());
            let help = command.get_after_long_help().or(command.get_after_help());
            let help = help.map(ToString::to_string).unwrap_or_default();
            let is_of_a_table = |line: &str| line.starts_with(' ');
            // Of 80 columns, the manual has 7 as its margin.
            let wide = help.lines().find(|line| is_of_a_table(line) && line.chars().count() > 73);
            assert_eq!(wide, None, "{}", command.get_name());
            // A paragraph is one line, which is wrapped where it is shown.
            let is_prose = |line: &str| !line.is_empty() && !is_of_a_table(line);
            let lines: Vec<&str> = help.lines().collect();
            let cut = lines.windows(2).find(|pair| pair.iter().all(|line| is_prose(line)));
            assert_eq!(cut, None, "{}", command.get_name());
        }
    }
}
