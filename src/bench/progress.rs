//! A line on the terminal that says how far a measurement is.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(500);

/// Nothing, where there is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    is_shown: bool,
    /// Runs in all, at most.
    total: Option<usize>,
    configs: usize,
    configs_done: usize,
    runs: usize,
    began: Instant,
    written: Option<Instant>,
}

impl Progress {
    pub fn new(is_wanted: bool, runs_of_each: Option<usize>, configs: usize) -> Self {
        Self {
            is_shown: is_wanted && std::io::stderr().is_terminal(),
            total: runs_of_each.map(|runs| runs.saturating_mul(configs)),
            configs,
            configs_done: 0,
            runs: 0,
            began: Instant::now(),
            written: None,
        }
    }

    pub fn run_made(&mut self) {
        self.runs += 1;
        self.show();
    }

    pub fn config_done(&mut self) {
        self.configs_done += 1;
        self.show();
    }

    fn show(&mut self) {
        if !self.is_shown {
            return;
        }
        let now = Instant::now();
        if self.written.is_some_and(|written| now - written < EVERY) {
            return;
        }
        self.written = Some(now);
        let line = line(self.runs, self.total, (self.configs_done, self.configs), now - self.began);
        // A terminal that is gone is no reason to stop measuring.
        let _gone = write!(std::io::stderr(), "\r{line}\x1b[K");
    }
}

impl Drop for Progress {
    /// Takes the line away.
    fn drop(&mut self) {
        if self.written.is_some() {
            let _gone = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Writes a line of its own, where there is a terminal.
pub(super) fn tell(text: &str) {
    if std::io::stderr().is_terminal() {
        let _gone = writeln!(std::io::stderr(), "\r{text}\x1b[K");
    }
}

fn line(runs: usize, total: Option<usize>, (done, configs): (usize, usize), passed: Duration) -> String {
    let mut line = format!("{runs} runs, {done} of {configs} configurations");
    if let Some(total) = total.filter(|total| runs > 0 && *total >= runs) {
        let left = passed.mul_f64((total - runs) as f64 / runs as f64);
        line += &format!(", at most {} s left", left.as_secs() + 1);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_in_proportion_to_the_runs_left() {
        let passed = Duration::from_secs(10);
        assert_eq!(line(50, Some(200), (1, 4), passed), "50 runs, 1 of 4 configurations, at most 31 s left");
        assert_eq!(line(50, None, (1, 4), passed), "50 runs, 1 of 4 configurations");
        assert_eq!(line(0, Some(200), (0, 4), Duration::ZERO), "0 runs, 0 of 4 configurations");
    }
}
