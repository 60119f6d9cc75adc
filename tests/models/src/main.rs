//! Each model runs a small program of a few threads in every interleaving, and in every order that the memory model
//! allows for its atomics, and checks what the room promises.
//!
//! ```sh
//! cargo run --release --manifest-path tests/models/Cargo.toml            # all
//! cargo run --release --manifest-path tests/models/Cargo.toml -- pool    # those with this in their names
//! ```
//!
//! What is modelled is the crate's own source, included from `src/`. Not modelled are crossbeam's queues, for which `sync`
//! has their promises, and loads that read what is stored only later, which loom does not know: that the worker has
//! read a word before its thread writes there again, `ring` must argue by itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[path = "../../../src/buffer.rs"]
mod buffer;
#[path = "../../../src/channel/mod.rs"]
mod channel;
#[path = "../../../src/error.rs"]
mod error;
mod models;
mod sync;
#[path = "../../../src/units.rs"]
mod units;

/// A program, and how often at most a thread may be interrupted in it where it could go on; none: any number of times.
type Model = (&'static str, Option<usize>, fn());

const MODELS: [Model; 8] = [
    ("a thread logs while the worker drains", None, models::a_thread_logs_while_the_worker_drains),
    ("two threads log while the worker drains", Some(4), models::two_threads_log_while_the_worker_drains),
    ("a full ring drops whole events and counts them", Some(4), models::a_full_ring_drops_whole_events),
    ("long records keep their place in the order", None, models::long_records_keep_their_place),
    ("the ring of a thread that exits serves another", Some(4), models::a_ring_serves_another_thread),
    ("no event of a session gets into the next", None, models::no_event_gets_into_the_next_session),
    ("a half-full ring wakes the worker", None, models::a_half_full_ring_wakes_the_worker),
    ("a block of the pool is in one place at a time", None, models::a_block_is_in_one_place),
];

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, interruptions, model) in MODELS.iter().filter(|(name, ..)| name.contains(&wanted)) {
        let runs = std::sync::Arc::new(AtomicU64::new(0));
        let counted = std::sync::Arc::clone(&runs);
        let started = Instant::now();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = *interruptions;
        builder.max_branches = 100_000;
        let model = *model;
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            model();
        });
        println!("{name}: {} interleavings in {:.1?}", runs.load(Ordering::Relaxed), started.elapsed());
    }
}
