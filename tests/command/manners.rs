//! Exit codes, pipes, signals, colours, and outputs that exist.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use crate::run::{Outcome, Run, copy_of, cuprof, datasets, finished, line, root, run, skipped};

/// Spoils a copy of the quick start's dataset; returns what to pass to the command.
type Spoil = fn(&std::path::Path) -> Result<(), Box<dyn std::error::Error>>;

#[test]
fn every_end_has_its_code() -> Outcome {
    // (arguments, code, a part of what is said)
    let table: [(&str, i32, &str); 39] = [
        ("summary quickstart.cuprof", 0, ""),
        ("--help", 0, ""),
        ("--version", 0, ""),
        ("summary --help", 0, ""),
        ("", 64, "Usage"),
        ("nonsense", 64, "unrecognized subcommand"),
        ("summary", 64, "required"),
        ("summary --nonsense quickstart.cuprof", 64, "--nonsense"),
        ("summary quickstart.cuprof --format pdf", 64, "pdf"),
        ("summary quickstart.cuprof --from 5", 64, "is no time"),
        ("summary quickstart.cuprof --kernel-regex (", 64, "is no pattern"),
        ("summary quickstart.cuprof --top 3 --all", 64, "cannot be used with"),
        ("summary quickstart.cuprof --format csv --show ranges,kernels", 64, "one section"),
        ("summary nowhere.cuprof", 65, "nowhere.cuprof"),
        ("summary /", 65, "holds no finished part"),
        ("replay nowhere.cuprofrec", 65, "nowhere.cuprofrec"),
        ("replay quickstart.cuprof/env-00000.parquet --output new.cuprof", 65, ""),
        ("replay quickstart.cuprof", 65, "`cuprof summary` reads them"),
        ("recover nowhere.cuprof", 65, "nowhere.cuprof"),
        ("man --output /etc/passwd/x", 73, "cannot create /etc/passwd/x: "),
        ("metrics plan --chip GH100 headline", 69, "CUPTI"),
        ("metrics list", 69, "--chip GH100"),
        ("metrics presets nonsense", 64, "known: headline"),
        ("summary quickstart.cuprof --output quickstart.cuprof", 73, "--force"),
        ("summary quickstart.cuprof --output nowhere/x.txt", 73, "nowhere/x.txt"),
        ("summary quickstart.cuprof --output /dev/full", 73, "is a device"),
        ("summary quickstart.cuprof --output /etc/passwd/x.txt", 73, "cannot create /etc/passwd/x.txt: "),
        ("trace quickstart.cuprof --output /etc/passwd/x", 73, "cannot create /etc/passwd/x: "),
        ("replay RECORDING --output /etc/passwd/x.cuprof", 73, "cannot create /etc/passwd/x.cuprof: "),
        ("summary quickstart.cuprof --output quickstart.cuprof/x.txt", 73, "inside of quickstart.cuprof"),
        ("summary quickstart.cuprof --output ./quickstart.cuprof/../quickstart.cuprof/x", 73, "inside of"),
        ("trace quickstart.cuprof --output quickstart.cuprof/x", 73, "inside of quickstart.cuprof"),
        ("plot quickstart.cuprof --output quickstart.cuprof/x.svg", 73, "inside of quickstart.cuprof"),
        ("report quickstart.cuprof --output quickstart.cuprof/x", 73, "inside of quickstart.cuprof"),
        (
            "compare graph.cuprof quickstart.cuprof --output quickstart.cuprof/x",
            73,
            "inside of quickstart.cuprof",
        ),
        ("trace quickstart.cuprof --format collapsed --output quickstart.cuprof/x", 73, "inside of"),
        ("summary quickstart.cuprof --from 2s --to 1s", 64, "end before they begin"),
        ("summary quickstart.cuprof --from 1s --to @5", 64, "end before they begin"),
        ("trace quickstart.cuprof --from 1s --to 1s --output x", 64, "end before they begin"),
    ];
    for (arguments, code, said) in table {
        let recording = root().join("examples/recordings/quickstart.cuprofrec");
        let arguments = &arguments.replace("RECORDING", &recording.display().to_string());
        let found = line(arguments)?.expect(code)?;
        assert!(!found.err.contains(".tmp"), "{arguments}: {}", found.err);
        assert!(found.err.contains(said), "{arguments}: {}", found.err);
        assert_eq!(found.err.is_empty(), code == 0, "{arguments}: {}", found.err);
    }
    Ok(())
}

#[test]
fn a_device_or_a_pipe_is_never_replaced() -> Outcome {
    let folder = tempfile::tempdir()?;
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
    let found =
        line(&format!("summary quickstart.cuprof --output {} --force", pipe.display()))?.expect(73)?;
    assert!(found.err.contains("is a device or a pipe"), "{}", found.err);
    assert!(!pipe.symlink_metadata()?.is_file());
    Ok(())
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (link, target) = (folder.path().join("link.txt"), folder.path().join("target.txt"));
    fs::write(&target, "before")?;
    std::os::unix::fs::symlink(&target, &link)?;
    line(&format!("summary quickstart.cuprof --output {} --force", link.display()))?.expect(0)?;
    assert!(link.is_symlink() && fs::read_to_string(&target)?.contains("launches"));
    let found = line("replay quickstart.cuprofrec --output /dev/full")?.expect(73)?;
    assert!(found.err.contains("a dataset is a folder"), "{}", found.err);
    Ok(())
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_unopened() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = copy_of("quickstart.cuprof", folder.path())?;
    let part = dataset.join("launches-00001.parquet");
    assert!(std::process::Command::new("mkfifo").arg(&part).status()?.success());
    for command in ["summary", "recover"] {
        let found = line(&format!("{command} {}", dataset.display()))?.expect(65)?;
        assert!(found.err.contains("is not a file: it is a pipe"), "{command}: {}", found.err);
    }
    assert!(part.exists());
    Ok(())
}

#[test]
fn a_recording_is_read_from_a_pipe_too() -> Outcome {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("run.cuprof");
    let recording = std::fs::read(root().join("examples/recordings/graph.cuprofrec"))?;
    for input in ["/dev/stdin", "-"] {
        let mut command = cuprof();
        command.args(["replay", input, "--force", "--output"]).arg(&output);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        child.stdin.take().ok_or("no pipe")?.write_all(&recording)?;
        assert!(child.wait()?.success(), "{input}");
        assert_eq!(cuprof::Dataset::open(&output)?.rows(cuprof::Table::Launches), 40, "{input}");
    }
    // It has no name that the dataset could have.
    assert!(line("replay -")?.expect(64)?.err.contains("--output"));
    Ok(())
}

#[test]
fn a_folder_does_not_go_to_standard_output() -> Outcome {
    let folder = tempfile::tempdir()?;
    let recording = root().join("examples/recordings/graph.cuprofrec");
    for arguments in [vec!["man".into(), "--output".into(), "-".into()], {
        vec!["replay".into(), recording.into_os_string(), "--output".into(), "-".into()]
    }] {
        let found = finished(cuprof().args(&arguments).current_dir(folder.path()))?.expect(64)?;
        assert!(found.err.contains("a folder cannot go to standard output"), "{arguments:?}: {}", found.err);
        assert!(!folder.path().join("-").exists(), "{arguments:?}");
    }
    Ok(())
}

#[test]
fn recovering_with_few_open_files_changes_nothing_that_is_whole() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = copy_of("quickstart.cuprof", folder.path())?;
    let names = || -> std::io::Result<Vec<_>> {
        let mut names: Vec<_> = fs::read_dir(&dataset)?.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        Ok(names)
    };
    let before = names()?;
    for limit in 3..8 {
        let program = env!("CARGO_BIN_EXE_cuprof");
        let script = format!("ulimit -n {limit}; exec {program} recover {}", dataset.display());
        let output = std::process::Command::new("bash").args(["-c", &script]).output()?;
        let is_told = String::from_utf8_lossy(&output.stdout).contains("the dataset is complete");
        assert_eq!(output.status.success(), is_told, "{limit}: {output:?}");
        assert_eq!(names()?, before, "{limit}");
    }
    Ok(())
}

#[test]
fn help_and_documents_tell_the_codes() -> Outcome {
    let help = line("--help")?.expect(0)?.out;
    for code in ["0", "1", "2", "3", "64", "65", "69", "70", "73", "74", "130"] {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{code} "))),
            "{code}: {help}"
        );
    }
    Ok(())
}

#[test]
fn input_that_is_not_whole_ends_with_65() -> Outcome {
    let cases: [(&str, Spoil, &str); 8] = [
        (
            "a part is of a later version",
            |at| patch(&at.join("launches-00000.parquet"), &version(cuprof::SCHEMA_VERSION), &version(9)),
            "schema version 9, known up to 2\n  it was written by a later version of this crate: update to read it",
        ),
        (
            "a part is of another program",
            |at| patch(&at.join("launches-00000.parquet"), b"cuprof.table", b"theirs.table"),
            "a Parquet file, but not of this crate",
        ),
        (
            "a part is missing",
            |at| Ok(fs::rename(at.join("launches-00000.parquet"), at.join("launches-00001.parquet"))?),
            "is missing",
        ),
        (
            "a part is cut short",
            |at| {
                let part = at.join("launches-00000.parquet");
                let bytes = fs::read(&part)?;
                Ok(fs::write(part, &bytes[..bytes.len() - 10])?)
            },
            "damaged or was cut short",
        ),
        (
            "a part is another's",
            |at| Ok(fs::copy(at.join("ranges-00000.parquet"), at.join("marks-00000.parquet")).map(drop)?),
            "holds the table ranges",
        ),
        (
            "a part is no Parquet",
            |at| Ok(fs::write(at.join("transfers-00000.parquet"), "PAR1 and no more")?),
            "transfers-00000.parquet",
        ),
        (
            "a part was rewritten with a compression that is not read",
            // Two facts, written by pyarrow 26 with snappy and the metadata of a part.
            |at| Ok(fs::write(at.join("env-00000.parquet"), include_bytes!("data/env.snappy"))?),
            "another program rewrote it with a compression that this crate does not read: have it write zstd, or none",
        ),
        ("it was not closed", |at| Ok(fs::remove_file(at.join("losses-00000.parquet"))?), ""),
    ];
    for (what, spoil, said) in cases {
        let folder = tempfile::tempdir()?;
        let dataset = copy_of("quickstart.cuprof", folder.path())?;
        spoil(&dataset)?;
        let found = run([std::ffi::OsStr::new("summary"), dataset.as_os_str()])?.expect(65)?;
        assert!(found.err.contains(said), "{what}: {}", found.err);
        if said.is_empty() {
            assert!(
                found.out.contains("120 launches") && found.out.starts_with("! "),
                "{what}: {}",
                found.out
            );
            let allowed = finished(cuprof().args(["summary", "--allow-losses"]).arg(&dataset))?;
            allowed.expect(0)?;
        } else {
            assert!(found.out.is_empty(), "{what}: {}", found.out);
        }
    }
    Ok(())
}

/// The version of the tables as the footer of a file has it: the key, and the value with its length.
fn version(number: u32) -> Vec<u8> {
    [&b"cuprof.schema_version\x18\x01"[..], number.to_string().as_bytes()].concat()
}

/// Replaces bytes that occur once by as many others.
fn patch(file: &std::path::Path, old: &[u8], new: &[u8]) -> Outcome {
    assert_eq!(old.len(), new.len());
    let mut bytes = fs::read(file)?;
    let places: Vec<_> = (0..bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    assert_eq!(places.len(), 1, "{} places in {}", places.len(), file.display());
    bytes[places[0]..places[0] + new.len()].copy_from_slice(new);
    Ok(fs::write(file, bytes)?)
}

#[test]
fn parts_of_earlier_versions_are_read_beside_those_of_today() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = copy_of("quickstart.cuprof", folder.path())?;
    patch(&dataset.join("ranges-00000.parquet"), &version(cuprof::SCHEMA_VERSION), &version(0))?;
    let known = line("summary quickstart.cuprof")?.expect(0)?.out;
    let found =
        finished(cuprof().args(["summary", "quickstart.cuprof"]).current_dir(folder.path()))?.expect(0)?;
    assert_eq!(found.out, known);
    Ok(())
}

#[test]
fn an_output_is_whole_or_not_there() -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("summary.txt");
    let to_file = |more: &[&str]| {
        finished(cuprof().args(["summary", "quickstart.cuprof", "--output"]).arg(&file).args(more))
    };
    to_file(&[])?.expect(0)?;
    let printed = line("summary quickstart.cuprof")?.expect(0)?.out;
    assert_eq!(fs::read_to_string(&file)?, printed);
    fs::write(&file, "mine")?;
    to_file(&[])?.expect(73)?;
    assert_eq!(fs::read_to_string(&file)?, "mine");
    to_file(&["--force"])?.expect(0)?;
    assert_eq!(fs::read_to_string(&file)?, printed);
    let left: Vec<_> = fs::read_dir(folder.path())?.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["summary.txt"]);
    Ok(())
}

#[test]
fn a_trace_of_damaged_files_leaves_nothing() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = copy_of("quickstart.cuprof", folder.path())?;
    let part = dataset.join("launches-00000.parquet");
    let mut bytes = fs::read(&part)?;
    // A page, which has a checksum: found when it is read, and the trace is begun by then.
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0xff;
    fs::write(&part, bytes)?;
    let arguments = ["trace", "quickstart.cuprof", "--output", "run.pftrace"];
    let found = finished(cuprof().args(arguments).current_dir(folder.path()))?.expect(65)?;
    assert!(found.err.contains("launches-00000.parquet"), "{}", found.err);
    let left: Vec<_> = fs::read_dir(folder.path())?.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["quickstart.cuprof"]);
    Ok(())
}

#[test]
fn a_pipe_that_is_closed_early_is_no_error() -> Outcome {
    // More than a pipe holds, so that writing meets the closed end.
    let mut command = cuprof();
    command.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    drop(child.stdout.take());
    let status = child.wait()?;
    let mut said = String::new();
    child.stderr.take().ok_or("no stderr")?.read_to_string(&mut said)?;
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    Ok(())
}

#[test]
fn a_full_disk_is_said() -> Outcome {
    let full = fs::OpenOptions::new().write(true).open("/dev/full")?;
    let output = cuprof().args(["summary", "quickstart.cuprof"]).stdout(full.try_clone()?).output()?;
    assert_eq!(output.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"));
    for arguments in ["--help", "--version", "summary --help", "completions bash", "man", "doctor"] {
        let output = cuprof().args(arguments.split(' ')).stdout(full.try_clone()?).output()?;
        assert_eq!(output.status.code(), Some(74), "{arguments}");
    }
    Ok(())
}

#[test]
fn an_output_that_is_closed_is_said() -> Outcome {
    for arguments in ["summary quickstart.cuprof", "--help", "completions bash"] {
        let line = format!("exec {} {arguments} >&-", env!("CARGO_BIN_EXE_cuprof"));
        let mut shell = std::process::Command::new("/bin/sh");
        let found = finished(shell.args(["-c", &line]).current_dir(datasets()))?.expect(74)?;
        assert!(found.err.contains("standard output: it is closed"), "{}", found.err);
    }
    // Which an output that is thrown away is not.
    let thrown = cuprof().args(["summary", "quickstart.cuprof"]).stdout(Stdio::null()).status()?;
    assert_eq!(thrown.code(), Some(0));
    Ok(())
}

#[test]
fn no_text_of_others_reaches_a_terminal_as_it_is() -> Outcome {
    const NAME: &str = "a\u{1b}[2J\r\nb";
    let folder = tempfile::tempdir()?;
    let dataset = copy_of("quickstart.cuprof", &folder.path().join(NAME))?;
    fs::write(dataset.join("launches-00001.parquet"), "PAR1")?;
    let file = folder.path().join(NAME).with_extension("cuprofrec");
    fs::write(&file, "no recording")?;
    let cases: [&[&std::ffi::OsStr]; 9] = [
        &["summary".as_ref(), NAME.as_ref()],
        &["summary".as_ref(), dataset.as_os_str()],
        &["summary".as_ref(), "quickstart.cuprof".as_ref(), "-o".as_ref(), file.as_os_str()],
        &["trace".as_ref(), "quickstart.cuprof".as_ref(), "-o".as_ref(), dataset.as_os_str()],
        &["replay".as_ref(), file.as_os_str(), "-o".as_ref(), dataset.as_os_str(), "--force".as_ref()],
        &["recover".as_ref(), dataset.as_os_str()],
        &["summary".as_ref(), "quickstart.cuprof".as_ref(), "--kernel-regex".as_ref(), "(\u{1b}[2J".as_ref()],
        &["metrics".as_ref(), "presets".as_ref(), NAME.as_ref()],
        &[NAME.as_ref()],
    ];
    for arguments in cases {
        let Run { out, err, .. } = run(arguments)?;
        let is_clean = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control());
        assert!(is_clean(&out) && is_clean(&err), "{arguments:?}: {out:?} {err:?}");
        // Of a subcommand that does not exist, sequences that mean something to a terminal are left out.
        let told = arguments.len() == 1 || [&out, &err].iter().any(|text| text.contains("\\u{1b}[2J"));
        assert!(told, "{arguments:?}: {out:?} {err:?}");
    }
    Ok(())
}

#[test]
fn names_of_kernels_are_exact_in_pipes_and_change_no_terminal() -> Outcome {
    const NAME: &str = "\u{1b}]0;title\u{7}a\u{202e}b\u{2066}c\tδ";
    let folder = tempfile::tempdir()?;
    let measured = cuprof::testing::Measured {
        parameters: vec![("of".to_owned(), format!("{NAME:?}"))],
        annotation: NAME.to_owned(),
        metric: ("gpu__time_duration.sum".to_owned(), "ns".to_owned()),
        values: (0..40).map(|at| Some(2_000.0 + f64::from(at % 7))).collect(),
    };
    cuprof::testing::write_measured(
        &folder.path().join("run.cuprof"),
        &[measured],
        None,
        &[("bench.name", NAME)],
    )?;
    for (arguments, is_exact) in [
        ("report run.cuprof", false),
        ("report run.cuprof -f markdown", false),
        ("report run.cuprof -f csv", true),
        ("report run.cuprof -f compat", true),
        ("compare run.cuprof run.cuprof", false),
        ("compare run.cuprof run.cuprof -f markdown", false),
        ("compare run.cuprof run.cuprof -f json", false),
        ("compare run.cuprof run.cuprof -f junit", false),
        ("plot run.cuprof", false),
    ] {
        let is_clean = |text: &str| text.chars().all(|c| "\r\n".contains(c) || !steers(c));
        let mut command = cuprof();
        let piped = finished(command.current_dir(folder.path()).args(arguments.split(' ')))?;
        assert!(!piped.out.is_empty() && is_clean(&piped.err), "{arguments}: {piped:?}");
        assert_eq!(is_clean(&piped.out), !is_exact, "{arguments}: {}", piped.out);
        assert_eq!(piped.out.contains(NAME), is_exact, "{arguments}: {}", piped.out);
        let set = [("TERM", "dumb")];
        let Some(shown) = on_a_terminal_in(folder.path(), arguments, &set)? else { continue };
        assert_eq!(shown.code, piped.code, "{arguments}");
        assert!(is_clean(&shown.out), "{arguments}: {:?}", shown.out);
        assert!(
            !is_exact || shown.out.contains("\\u{1b}]0;title\\u{7}a\\u{202e}b\\u{2066}c\\tδ"),
            "{arguments}: {}",
            shown.out
        );
    }
    Ok(())
}

/// Whether a character moves a terminal's cursor, or turns text around.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn paths_come_from_standard_input() -> Outcome {
    let mut child = cuprof().args(["summary", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("no stdin")?;
    input.write_all(b"quickstart.cuprof\n\nnvtx.cuprof\n")?;
    drop(input);
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        output.stdout,
        cuprof().args(["summary", "quickstart.cuprof", "nvtx.cuprof"]).output()?.stdout
    );
    let empty = line("summary -")?.expect(64)?;
    assert!(empty.err.contains("standard input named no dataset"), "{}", empty.err);
    Ok(())
}

#[test]
fn colours_are_for_terminals() -> Outcome {
    let escape = '\u{1b}';
    assert!(!line("summary quickstart.cuprof")?.expect(0)?.out.contains(escape));
    assert!(!line("--help")?.expect(0)?.out.contains(escape));
    assert!(line("summary quickstart.cuprof --color always")?.expect(0)?.out.contains(escape));
    let on_a_terminal = |set: &[(&str, &str)]| on_a_terminal("summary quickstart.cuprof", set);
    if on_a_terminal(&[])?.is_none() {
        return Ok(());
    }
    let colours = |set: &[(&str, &str)]| -> Result<bool, Box<dyn std::error::Error>> {
        Ok(on_a_terminal(set)?.ok_or("no terminal")?.expect(0)?.out.contains(escape))
    };
    assert!(colours(&[("TERM", "xterm")])?);
    assert!(!colours(&[("TERM", "xterm"), ("NO_COLOR", "1")])?);
    assert!(!colours(&[("TERM", "dumb")])?);
    Ok(())
}

/// The command on a terminal of its own, which script(1) makes; none where there is no script(1).
fn on_a_terminal(line: &str, set: &[(&str, &str)]) -> Result<Option<Run>, Box<dyn std::error::Error>> {
    on_a_terminal_in(datasets(), line, set)
}

/// The same in another folder.
fn on_a_terminal_in(
    folder: &std::path::Path,
    line: &str,
    set: &[(&str, &str)],
) -> Result<Option<Run>, Box<dyn std::error::Error>> {
    let script = std::path::Path::new("/usr/bin/script");
    if !script.exists() {
        skipped("there is no script(1), which makes a terminal")?;
        return Ok(None);
    }
    let mut command = std::process::Command::new(script);
    let line = format!("{} {line}", env!("CARGO_BIN_EXE_cuprof"));
    command.args(["-qec", &line, "/dev/null"]).current_dir(folder).stdin(Stdio::null());
    finished(command.env_clear().env("PATH", "/usr/bin:/bin").envs(set.iter().copied())).map(Some)
}

#[test]
fn no_terminal_is_filled_with_bytes() -> Outcome {
    for arguments in ["trace quickstart.cuprof", "plot quickstart.cuprof --format png"] {
        let Some(found) = on_a_terminal(arguments, &[])? else { return Ok(()) };
        assert!(found.expect(64)?.out.contains("--output"), "{arguments}");
    }
    Ok(())
}

/// Of a recording's beginning, before its first frame.
const MAGIC_BYTES: usize = 8;

#[test]
fn an_interrupted_replay_leaves_nothing() -> Outcome {
    let folder = tempfile::tempdir()?;
    // A recording that takes long: its frames, each with its length before it, again and again.
    let long = folder.path().join("long.cuprofrec");
    let recording = fs::read(root().join("examples/recordings/quickstart.cuprofrec"))?;
    let end = |at: usize| -> Result<usize, Box<dyn std::error::Error>> {
        Ok(at + 8 + u32::from_le_bytes(recording[at..at + 4].try_into()?) as usize)
    };
    let mut frames = vec![MAGIC_BYTES];
    while let Some(at) = frames.last().copied().filter(|at| *at < recording.len()) {
        frames.push(end(at)?);
    }
    let [_, first, .., last, _] = frames[..] else { return Err("too few frames".into()) };
    fs::write(
        &long,
        [&recording[..first], &recording[first..last].repeat(3000), &recording[last..]].concat(),
    )?;
    let names = || -> std::io::Result<Vec<String>> {
        let entries = fs::read_dir(folder.path())?.flatten();
        Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    };
    // Again and again, since each time it may be somewhere else in its work.
    for _ in 0..40 {
        let mut command = cuprof();
        command.arg("replay").arg(&long).args(["--output", "run.cuprof"]).current_dir(folder.path());
        let mut child = command.stdout(Stdio::null()).spawn()?;
        // The folder is there before the first frame is read.
        while !names()?.iter().any(|name| name.ends_with(".tmp")) {
            std::thread::yield_now();
            assert!(child.try_wait()?.is_none(), "it ended by itself");
        }
        let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
        assert!(killed.success());
        assert_eq!(child.wait()?.code(), Some(130));
        assert_eq!(names()?, ["long.cuprofrec"]);
    }
    Ok(())
}

#[test]
fn what_ends_with_65_says_why_in_every_form() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = copy_of("quickstart.cuprof", folder.path())?;
    fs::remove_file(dataset.join("losses-00000.parquet"))?;
    let measurement = folder.path().join("measured.cuprof");
    crate::measured::write_sweep(&measurement)?;
    fs::remove_file(measurement.join("losses-00000.parquet"))?;
    for arguments in [
        "summary quickstart.cuprof",
        "summary quickstart.cuprof -f markdown",
        "summary quickstart.cuprof -f csv",
        "summary quickstart.cuprof -f json",
        "trace quickstart.cuprof -f collapsed",
        "trace quickstart.cuprof",
        "plot quickstart.cuprof",
        "plot measured.cuprof",
        "report measured.cuprof",
        "report measured.cuprof -f csv",
        "report measured.cuprof -f markdown",
        "report measured.cuprof -f compat",
        "compare measured.cuprof measured.cuprof --allow-single-run",
        "compare measured.cuprof measured.cuprof --allow-single-run -f json",
    ] {
        let to = |more: &str| {
            let words = arguments.split(' ').chain(more.split_whitespace());
            let output = cuprof().args(words).current_dir(folder.path()).output()?;
            Ok::<_, std::io::Error>((
                output.status.code(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ))
        };
        let (code, said) = to("")?;
        let tells = said.contains("rows are missing") && said.contains("--allow-losses makes it 0");
        assert!(code == Some(65) && tells, "{arguments}: {code:?} {said}");
        let (code, said) = to("--allow-losses")?;
        assert!(code != Some(65) && said.is_empty(), "{arguments}: {code:?} {said}");
    }
    Ok(())
}

#[test]
fn a_dataset_that_is_named_twice_is_read_once() -> Outcome {
    let once = line("summary graph.cuprof")?.expect(0)?;
    let twice = line("summary graph.cuprof ./graph.cuprof/")?.expect(0)?;
    assert_eq!(twice.out, once.out);
    assert_eq!(twice.err, "note: ./graph.cuprof/ was named before, and is read once\n");
    Ok(())
}

#[test]
fn a_report_takes_the_path_that_standard_input_has() -> Outcome {
    let folder = tempfile::tempdir()?;
    crate::measured::write_sweep(&folder.path().join("measured.cuprof"))?;
    fs::write(folder.path().join("one"), "measured.cuprof\n")?;
    fs::write(folder.path().join("two"), "measured.cuprof\nother.cuprof\n")?;
    let report = |input: &str| -> Result<Run, Box<dyn std::error::Error>> {
        let input = fs::File::open(folder.path().join(input))?;
        finished(cuprof().args(["report", "-"]).current_dir(folder.path()).stdin(input))
    };
    let named = finished(cuprof().args(["report", "measured.cuprof"]).current_dir(folder.path()))?;
    assert_eq!(report("one")?.expect(0)?.out, named.expect(0)?.out);
    assert!(report("two")?.expect(64)?.err.contains("a report is of one dataset"));
    Ok(())
}

#[test]
fn pages_of_the_manual_are_not_replaced_unasked() -> Outcome {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("cuprof-plot.1"), "mine")?;
    let man = |more: &[&str]| finished(cuprof().args(["man", "-o"]).arg(folder.path()).args(more));
    let refused = man(&[])?.expect(73)?;
    assert!(refused.err.contains("cuprof-plot.1 exists"), "{}", refused.err);
    let left: Vec<_> = fs::read_dir(folder.path())?.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["cuprof-plot.1"]);
    assert_eq!(fs::read_to_string(folder.path().join("cuprof-plot.1"))?, "mine");
    man(&["--force"])?.expect(0)?;
    assert!(fs::read_to_string(folder.path().join("cuprof-plot.1"))?.contains(".TH"));
    assert!(folder.path().join("cuprof.1").exists());
    Ok(())
}

#[test]
fn a_filter_that_finds_nothing_says_what_is_near() -> Outcome {
    for (filter, said) in [
        (
            "--kernel gemm",
            "no kernel matches gemm; it has to match as a whole, and '*gemm*' matches gemm anywhere; near are gemm(",
        ),
        ("--kernel *gemn*", "no kernel matches *gemn*; near are gemm("),
        ("--kernel-regex ^gemn", "no kernel matches ^gemn; near are gemm("),
        ("--range step", "'*step*' matches step anywhere; near are epoch/step"),
        ("--range epohc", "near are epoch"),
        ("--device 3", "there is no device 3, only 0\n"),
        ("--stream 1,2", "there is no stream 1, 2, only 13, "),
        (
            "--from 5s",
            "no kernel or transfer meets all of it: from 5000 ms; the last kernel or transfer ends ",
        ),
        ("--range loader --kernel *gemm*", "meets all of it: kernel *gemm*, range loader\n"),
    ] {
        for command in ["summary", "summary -f csv", "trace", "trace -f collapsed"] {
            // Ranges are drawn, too.
            if command == "trace" && filter.contains("--range loader") {
                continue;
            }
            let output =
                cuprof().args(format!("{command} quickstart.cuprof {filter}").split(' ')).output()?;
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{command} {filter}: {err}");
            assert!(err.starts_with("note: ") && err.contains(said), "{command} {filter}: {err}");
        }
    }
    // What a range has no launches in is found.
    assert_eq!(line("summary quickstart.cuprof --range epoch/step/loss")?.expect(0)?.err, "");
    Ok(())
}
