//! Faults that users of profilers have reported in public, each as a test; `tests/RECIPES.md` lists all.

mod buffers;
mod clocks;
mod conflicts;
mod counters;
mod hangs;
mod loading;
mod names;
mod ranges;
mod records;
mod table;
