//! Colours, where a terminal shows them and nobody minds.

use std::io::IsTerminal;

use clap::ValueEnum;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// Never
    Never,
}

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";
const PLAIN: &str = "\u{1b}[0m";

impl Color {
    fn is_wanted(self) -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
                std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
            }
        }
    }

    /// Losses, warnings and what is slower in red, the titles of tables in bold.
    pub fn paint(self, text: &str) -> String {
        if !self.is_wanted() {
            return text.to_owned();
        }
        let mut painted = String::with_capacity(text.len() + 256);
        let mut is_title = false;
        for line in text.split_inclusive('\n') {
            let (words, end) = line.strip_suffix('\n').map_or((line, ""), |words| (words, "\n"));
            let color = match () {
                () if words.starts_with('!') || words.starts_with("SLOWER") => RED,
                () if is_title && !words.is_empty() => BOLD,
                () => "",
            };
            is_title = words.is_empty();
            let plain = if color.is_empty() { "" } else { PLAIN };
            painted.extend([color, words, plain, end]);
        }
        painted
    }
}
