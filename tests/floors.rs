//! The house rules of `src/`, read from the sources themselves: which room may use which, where unsafe code may
//! stand, and how long a file may be.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

type Outcome = Result<(), Box<dyn Error>>;

/// The rooms, from the ground up. A room uses only rooms of lower floors, not even those of its own floor.
///
/// `cupti` stands above `buffer` and `range`, although it is a thin layer over C: its callbacks are where CUPTI
/// enters the crate, and they hand what they get to the pool of buffers and to the ranges of the thread. Calls go
/// down, as everywhere. The same with `driver`, whose contexts the callbacks note.
const FLOORS: [&[&str]; 9] = [
    // Words that everybody uses.
    &["error", "issues", "losses", "panics", "sync", "under_way", "units"],
    // Each knows one thing and nothing of the others: memory, bytes, events, files, numbers.
    &["buffer", "capture", "channel", "driver", "gate", "limit", "pattern", "record", "stats", "table"],
    // Ranges log to the channel; the others make or sum up the tables' rows.
    &["attribute", "names", "range", "summary"],
    // CUPTI, and what it calls back; what reads the files, and calls nothing.
    &["analysis", "compare", "cupti"],
    // All of it in one session; what is done to a GPU beside.
    &["control", "trace"],
    // Counters never run beside a trace, and give way to one.
    &["counters"],
    // Datasets as pictures; verdicts about counters among them.
    &["plot"],
    // What looks at all of it, and a way in for integration tests and benches.
    &["bench", "doctor", "testing"],
    // The crate as its users see it.
    &["lib"],
];

/// Where unsafe code may stand: calls of C, memory that C writes to, what C calls, and the processor's counter.
const UNSAFE: [&str; 6] = [
    "src/bin/cuprof/closed.rs",
    "src/buffer.rs",
    "src/channel/clock.rs",
    "src/cupti/",
    "src/driver/",
    "src/range/nvtx/",
];

/// Lines of a file, without its tests.
const MAX_LINES: usize = 600;

/// A source file, as far as the rules look at it.
struct Source {
    /// From the crate's root.
    path: String,
    /// Without comments, texts and tests; lines stay where they are.
    code: String,
}

impl Source {
    fn new(path: &Path, text: &str) -> Self {
        let path = path.to_string_lossy().into_owned();
        Self { path, code: without_tests(&without_words(text)) }
    }

    /// `table` for `src/table/reader.rs` and for `src/table.rs`.
    fn room(&self) -> &str {
        let inside = self.path.split_once("src/").map_or("", |(_, inside)| inside);
        inside.split_once('/').map_or(inside.trim_end_matches(".rs"), |(room, _)| room)
    }

    /// How many modules this one is inside of, the crate's root being one.
    fn depth(&self) -> usize {
        let inside = self.path.split_once("src/").map_or("", |(_, inside)| inside);
        inside.trim_end_matches("/mod.rs").split('/').count()
    }

    /// The number of the line at a place in the code.
    fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// The rooms that this file names, with the places.
    fn uses(&self) -> Vec<(usize, String)> {
        let mut uses = Vec::new();
        for (at, _) in self.code.match_indices("crate::") {
            // `$crate::` in a macro means the crate as its users see it.
            if self.code[..at].ends_with(|c: char| is_word(c) || c == '$') {
                continue;
            }
            let rest = self.code[at + "crate::".len()..].trim_start();
            let names = match rest.strip_prefix('{') {
                Some(group) => top_level_names(group),
                None => vec![first_word(rest)],
            };
            uses.extend(names.into_iter().map(|name| (at, name.to_owned())));
        }
        uses
    }

    /// Places where `super::` leaves the room.
    fn climbs(&self) -> impl Iterator<Item = usize> {
        let climb = "super::".repeat(self.depth());
        let found: Vec<_> = self.code.match_indices(&climb).map(|(at, _)| at).collect();
        found.into_iter()
    }

    fn lines(&self) -> usize {
        self.code.lines().filter(|line| line.trim() != CUT).count()
    }

    fn words(&self, wanted: &str) -> impl Iterator<Item = usize> {
        self.code.match_indices(wanted).map(|(at, _)| at).filter(move |at| {
            let (before, after) = (&self.code[..*at], &self.code[at + wanted.len()..]);
            !before.ends_with(is_word) && !after.starts_with(is_word)
        })
    }
}

/// Stands for a line that was cut out.
const CUT: &str = "\u{0}";

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn first_word(text: &str) -> &str {
    text.split(|c| !is_word(c)).next().unwrap_or_default()
}

/// The first names in `a::b, c::{d, e}}; …`.
fn top_level_names(group: &str) -> Vec<&str> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                names.push(first_word(group[start..at].trim_start()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The text with comments, string and character literals blanked out.
fn without_words(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let previous_is_word = code.ends_with(is_word);
        let length = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            'r' if !previous_is_word && raw_string(rest).is_some() => raw_string(rest).unwrap_or(1),
            '"' => 1 + quoted(&rest[1..], '"'),
            // A lifetime has no closing quote.
            '\'' if is_character(rest) => 1 + quoted(&rest[1..], '\''),
            _ => {
                code.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
        };
        code.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    code
}

/// The length of the raw string that the text begins with.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text[1..].bytes().take_while(|byte| *byte == b'#').count();
    let body = text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(text.len() - body.len() + body.find(&end)? + end.len())
}

/// The length of what stands before and with the closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

fn is_character(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

/// The code without the modules that `#[cfg(test)]` stands before.
fn without_tests(code: &str) -> String {
    const TEST: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(TEST) {
        let tests = &rest[start..];
        let end = match (tests.find('{'), tests.find(';')) {
            // An item in braces, and not `mod tests;`.
            (Some(open), semicolon) if semicolon.is_none_or(|semicolon| open < semicolon) => {
                open + closing_brace(&tests[open..])
            }
            (_, semicolon) => semicolon.map_or(tests.len(), |semicolon| semicolon + 1),
        };
        kept.push_str(&rest[..start]);
        let lines = tests[..end].matches('\n').count();
        kept.push_str(&format!("{CUT}\n").repeat(lines));
        rest = &tests[end..];
    }
    kept.push_str(rest);
    kept
}

/// The length of a block, with both of its braces.
fn closing_brace(block: &str) -> usize {
    let mut depth = 0;
    for (at, c) in block.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    block.len()
}

/// The Rust files below a folder of the repository, generated code and files of tests excepted.
fn sources(folder: &str) -> Result<Vec<Source>, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(folder)];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path: PathBuf = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if stem == "tests" || stem.ends_with("_tests") || stem == "bindings" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(Source::new(path.strip_prefix(root)?, &fs::read_to_string(&path)?));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    if sources.is_empty() { Err(format!("no sources in {folder}").into()) } else { Ok(sources) }
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// What a file uses and must not.
fn wrong_uses(source: &Source) -> Vec<String> {
    let room = source.room();
    let Some(own) = floor(room) else { return vec![format!("{}: {room} is on no floor", source.path)] };
    let mut wrong = Vec::new();
    for (at, used) in source.uses() {
        // Items of the root itself, which are re-exports or macros, are on the top floor.
        let below = used == room || floor(&used).is_some_and(|used| used < own);
        if !below {
            let (path, line) = (&source.path, source.line(at));
            let reason = floor(&used)
                .map_or("which is no room".to_owned(), |floor| format!("which is on floor {floor}"));
            wrong.push(format!("{path}:{line}: {room} (floor {own}) uses {used}, {reason}"));
        }
    }
    let climbs = source
        .climbs()
        .map(|at| format!("{}:{}: `super` leaves the room: write `crate::`", source.path, source.line(at)));
    wrong.extend(climbs.filter(|_| room != "lib"));
    wrong
}

fn assert_none(wrong: &[String], rule: &str) {
    assert!(wrong.is_empty(), "{rule}\n{}", wrong.join("\n"));
}

#[test]
fn a_room_uses_only_rooms_below_it() -> Outcome {
    let sources = sources("src")?;
    // The command is a crate of its own: it sees the library as its users do.
    let wrong: Vec<_> = sources.iter().filter(|source| source.room() != "bin").flat_map(wrong_uses).collect();
    assert_none(&wrong, "rooms use only lower floors (the table is in tests/floors.rs):");
    Ok(())
}

#[test]
fn every_floor_has_the_rooms_that_exist() -> Outcome {
    let sources = sources("src")?;
    for room in FLOORS.into_iter().flatten() {
        assert!(sources.iter().any(|source| source.room() == *room), "{room} is on a floor, but not in src");
    }
    Ok(())
}

#[test]
fn unsafe_code_stands_only_where_c_is_spoken() -> Outcome {
    let sources = sources("src")?;
    let has_unsafe = |source: &Source| source.words("unsafe").next();
    for source in &sources {
        if UNSAFE.iter().any(|place| source.path.starts_with(place)) {
            continue;
        }
        if let Some(at) = has_unsafe(source) {
            let line = source.line(at);
            return Err(format!("{}:{line}: unsafe code outside of {UNSAFE:?}", source.path).into());
        }
    }
    for place in UNSAFE {
        let needed =
            sources.iter().any(|source| source.path.starts_with(place) && has_unsafe(source).is_some());
        assert!(needed, "{place} needs no leave for unsafe code any more");
    }
    Ok(())
}

#[test]
fn a_file_has_at_most_600_lines_without_its_tests() -> Outcome {
    let mut wrong = Vec::new();
    for source in sources("src")?.into_iter().chain(sources("cupti-sys/src")?) {
        let lines = source.lines();
        if lines > MAX_LINES {
            wrong.push(format!("{}: {lines} lines", source.path));
        }
    }
    assert_none(&wrong, "files are split by topic before they grow above 600 lines:");
    Ok(())
}

/// What changes the clocks of a GPU. Only against the simulated libraries, and in the one example that cleans up.
const PINS: [&str; 7] = [
    "Clocks::Base",
    "Clocks::Boost",
    "Clocks::Mhz",
    "ClockBackend",
    "reset_clocks",
    "lock-gpu-clocks",
    "-lgc",
];

#[test]
fn nothing_that_runs_on_a_real_gpu_pins_clocks() -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<_> =
        ["tests/gpu", "benches", "examples", "scripts", "workload"].map(|folder| root.join(folder)).into();
    let mut wrong = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path)
                && !path.ends_with("examples/clocks_reset.rs")
            {
                let found = PINS.iter().filter(|pin| text.contains(**pin));
                wrong.extend(found.map(|pin| format!("{}: {pin}", path.display())));
            }
        }
    }
    assert_none(&wrong, "clocks are only pinned against the simulated NVML and CUPTI:");
    // And whatever they call: their first step forbids it for the process, and the script for all of them.
    let session = fs::read_to_string(root.join("tests/gpu/session.rs"))?;
    assert_eq!(session.matches("cuprof::forbid_clock_control()").count(), 2);
    assert!(
        fs::read_to_string(root.join("scripts/gpu.sh"))?.contains("export CUPROF_FORBID_CLOCK_CONTROL=1")
    );
    Ok(())
}

#[test]
fn the_rules_see_what_they_forbid() {
    let text = r##"
        // use crate::trace::Profiler;
        use crate::{error::{Error, Result}, table::Table, trace};
        macro_rules! m { () => { $crate::lib_item() } }
        const TEXT: &str = "crate::capture \" unsafe {"; const RAW: &str = r#"crate::summary " unsafe"#;
        fn f<'a>(c: char, e: &'a str) -> bool { c == '"' || c == '\'' || crate::buffer::g(e) }
        use super::super::range;
        #[cfg(test)]
        mod tests { use crate::lib; fn g() { unsafe { h() } } }
        fn last() { unsafe { crate::units::last() } }
    "##;
    let source = Source::new(Path::new("src/table/reader.rs"), text);
    let rooms: Vec<_> = source.uses().into_iter().map(|(_, room)| room).collect();
    assert_eq!(rooms, ["error", "table", "trace", "buffer", "units"]);
    assert_eq!(source.words("unsafe").map(|at| source.line(at)).collect::<Vec<_>>(), [10]);
    let wrong = wrong_uses(&source);
    assert_eq!(wrong.len(), 3, "{wrong:#?}");
    assert!(wrong[0].starts_with("src/table/reader.rs:3: table (floor 1) uses trace"), "{wrong:#?}");
    assert!(wrong[1].contains("uses buffer"), "{wrong:#?}");
    assert!(wrong[2].contains(":7: `super` leaves the room"), "{wrong:#?}");
    assert_eq!((source.room(), source.depth()), ("table", 2));
    assert_eq!(source.lines(), text.lines().count() - 1);
}
