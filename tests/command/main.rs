//! The command `cuprof`: what it prints, where, and how it ends.
//!
//! What it prints for the recordings is kept in `tests/command/snapshots`, as it was reviewed; `CUPROF_BLESS=1` in front of
//! `cargo test --features cli --test command` writes them anew. Plain files and a few lines of our own: what is compared
//! is whole outputs, and a diff of them is what a reviewer reads.

#[path = "../bless/mod.rs"]
mod bless;
mod compare;
mod manners;
mod measured;
mod outputs;
mod plots;
mod run;
mod snapshot;
mod tools;
