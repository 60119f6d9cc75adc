//! A page of text for a terminal: paragraphs, and tables of numbers with a name.

use std::fmt::Write;

use super::render::Symbols;
use super::text::{bandwidth, bytes, count, counted, end_of, one_line, percent, shortened, time, width};
use super::{KernelSummary, TransferSummary};

const MIN_WIDTH: usize = 40;

/// A name with less room than this says nothing; columns of numbers make way.
const MIN_NAME_WIDTH: usize = 22;

/// Columns of a level of a tree.
const INDENT: usize = 2;

/// Stands for a space inside of a [`Page::paragraph`] that no line may end at.
pub(crate) const JOINED_SPACE: &str = "\u{a0}";

/// Text that grows line by line, none wider than the page.
pub(crate) struct Page {
    pub text: String,
    pub width: usize,
    pub symbols: Symbols,
}

impl Page {
    /// An empty page; below 40 columns it is taken as 40.
    pub fn new(width: usize, symbols: Symbols) -> Self {
        Self { text: String::new(), width: width.max(MIN_WIDTH), symbols }
    }

    pub fn time(&self, ns: i64) -> String {
        time(ns as f64, self.symbols) // CAST: for people
    }

    pub fn left_out(&mut self, number: usize, what: &str) {
        if number > 0 {
            self.paragraph("", "", &format!("({} more)", counted(number as u64, what)));
        }
    }

    /// Text in lines that fit.
    pub fn paragraph(&mut self, first: &str, next: &str, text: &str) {
        let mut line = first.to_owned();
        let mut is_empty = true;
        for word in one_line(text).split(' ').filter(|word| !word.is_empty()) {
            if !is_empty && width(&line) + 1 + width(word) > self.width {
                self.text.push_str(&line);
                self.text.push('\n');
                line = next.to_owned();
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(&word.replace(JOINED_SPACE, " "));
            is_empty = false;
        }
        self.text.push_str(&line);
        self.text.push('\n');
    }

    /// A table of kernels, with one line for the rest.
    pub fn kernel_grid(&mut self, shown: &[&KernelSummary], rest: &[&KernelSummary]) {
        let mut grid = Grid::new("Kernel", &["Share", "Total", "Calls", "Mean", "Min", "Max"], [5, 4, 3, 2]);
        let cells = |kernel: &KernelSummary| {
            [
                percent(kernel.share),
                self.time(kernel.total_ns),
                count(kernel.calls),
                time(kernel.mean_ns, self.symbols),
                self.time(kernel.min_ns),
                self.time(kernel.max_ns),
            ]
        };
        for kernel in shown {
            grid.push(cells(kernel), 0, kernel.name.to_string());
        }
        if !rest.is_empty() {
            let together = KernelSummary {
                share: rest.iter().map(|kernel| kernel.share).sum(),
                ..KernelSummary::new(
                    format!("({} more)", counted(rest.len() as u64, "kernel")).into(),
                    rest.iter().map(|kernel| kernel.calls).sum(),
                    rest.iter().fold(0, |sum: i64, kernel| sum.saturating_add(kernel.total_ns)),
                    (
                        rest.iter().map(|kernel| kernel.min_ns).min().unwrap_or_default(),
                        rest.iter().map(|kernel| kernel.max_ns).max().unwrap_or_default(),
                    ),
                    0,
                )
            };
            grid.push(cells(&together), 0, together.name.to_string());
        }
        self.grid(grid);
    }

    /// A table of transfers; nothing where there are none.
    pub fn transfer_grid(&mut self, transfers: &[TransferSummary]) {
        if transfers.is_empty() {
            return;
        }
        let mut grid = Grid::new("Transfer", &["Share", "Total", "Calls", "Size", "Bandwidth"], [3, 2, 4]);
        for transfer in transfers {
            let cells = [
                percent(transfer.share),
                self.time(transfer.total_ns),
                count(transfer.calls),
                bytes(transfer.bytes as f64), // CAST: for people
                transfer.bandwidth_bytes_per_s.map(bandwidth).unwrap_or_default(),
            ];
            grid.push(cells, 0, transfer.kind.replace('_', " "));
        }
        self.grid(grid);
    }

    /// A table after an empty line.
    pub fn grid(&mut self, grid: Grid) {
        self.text.push('\n');
        self.grid_here(grid);
    }

    /// A table: numbers to the left, aligned to the right, and the name in what is left of the line.
    pub fn grid_here(&mut self, grid: Grid) {
        let (columns, name_width) = grid.fit(self.width);
        let levels = name_width / 2 / INDENT;
        for row in &grid.rows {
            let mut line = String::new();
            for &(column, cell_width) in &columns {
                let cell = &row.cells[column];
                let padding = cell_width.saturating_sub(width(cell));
                let _ = write!(line, "{:padding$}{cell}  ", "");
            }
            // An indentation beyond half of the room would leave no name.
            let level = if row.depth > levels { format!("{}> ", row.depth) } else { String::new() };
            let room = name_width.saturating_sub(width(&level) + width(&row.kept));
            let indent = (INDENT * row.depth.min(levels)).min(room);
            let room = room - indent;
            // Of where something is, the end tells most; the name itself has the larger part.
            let room_of_name = room.saturating_sub(width(&row.place)).max(room * 3 / 5);
            let name = shortened(&row.name, room_of_name, self.symbols);
            let place = end_of(&row.place, room.saturating_sub(width(&name)), self.symbols);
            let _ = write!(line, "{:indent$}{level}{}{place}{name}", "", row.kept);
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
        if let Some(deep) = grid.rows.iter().find(|row| row.depth > levels) {
            let told = format!("({0}> is {0} levels down, too deep to be indented)", deep.depth);
            self.paragraph("", "", &told);
        }
    }
}

/// Rows of numbers with a name.
pub(crate) struct Grid {
    /// The first row holds the titles.
    rows: Vec<GridRow>,
    /// The columns to leave out first where there is little room.
    expendable: Vec<usize>,
}

struct GridRow {
    cells: Vec<String>,
    depth: usize,
    /// What stands before the name and is never shortened: numbers make way for it.
    kept: String,
    /// Where it is, if that is told.
    place: String,
    name: String,
}

impl Grid {
    pub fn new(name: &str, titles: &[&str], expendable: impl Into<Vec<usize>>) -> Self {
        let cells = titles.iter().map(|title| (*title).to_owned()).collect();
        let titles =
            GridRow { cells, depth: 0, kept: String::new(), place: String::new(), name: name.to_owned() };
        Self { rows: vec![titles], expendable: expendable.into() }
    }

    pub fn push(&mut self, cells: impl Into<Vec<String>>, depth: usize, name: String) {
        self.push_kept(cells, depth, String::new(), name);
    }

    /// The same for a name of which the beginning is always there.
    pub fn push_kept(&mut self, cells: impl Into<Vec<String>>, depth: usize, kept: String, name: String) {
        let (place, name) = (String::new(), one_line(&name));
        self.rows.push(GridRow { cells: cells.into(), depth, kept, place, name });
    }

    /// The same for a name that comes after the place where it is.
    pub fn push_at(&mut self, cells: impl Into<Vec<String>>, place: &str, name: &str) {
        let (place, name) = (one_line(place), one_line(name));
        self.rows.push(GridRow { cells: cells.into(), depth: 0, kept: String::new(), place, name });
    }

    /// The columns that fit, each with its width, and the room for the name.
    fn fit(&self, line_width: usize) -> (Vec<(usize, usize)>, usize) {
        let cells = self.rows.first().map_or(0, |row| row.cells.len());
        let column_width =
            |column: usize| self.rows.iter().map(|row| width(&row.cells[column])).max().unwrap_or(0);
        let mut columns: Vec<(usize, usize)> =
            (0..cells).map(|column| (column, column_width(column))).collect();
        let of_rows = |of: fn(&GridRow) -> usize| self.rows.iter().map(of).max().unwrap_or(0);
        let longest =
            of_rows(|row| INDENT * row.depth + width(&row.kept) + width(&row.place) + width(&row.name));
        let kept = of_rows(|row| if row.kept.is_empty() { 0 } else { INDENT * row.depth + width(&row.kept) });
        let needed = longest.min(MIN_NAME_WIDTH.max(kept + MIN_NAME_WIDTH / 3));
        let used = |columns: &[(usize, usize)]| columns.iter().map(|(_, width)| width + 2).sum::<usize>();
        for expendable in &self.expendable {
            if used(&columns) + needed > line_width {
                columns.retain(|(column, _)| column != expendable);
            }
        }
        let name_width = line_width.saturating_sub(used(&columns)).max(1);
        (columns, name_width)
    }
}
