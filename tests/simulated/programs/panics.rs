//! Panics while a session runs. `recipes/hangs.rs` builds it with `-C panic=abort` and looks at what it leaves.
#![expect(clippy::panic, clippy::unwrap_used, reason = "it panics on purpose, and is a test's")]

use cuprof::Profiler;

#[path = "../library.rs"]
#[expect(dead_code, reason = "it launches, and does nothing else")]
mod library;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let output = std::env::var_os("OUTPUT").ok_or("OUTPUT: where to write to")?;
    let _running = {
        let profiler = Profiler::builder().output(output).start()?;
        let cupti = library::Simulated::get();
        cupti.launch(5);
        profiler.flush()?;
        cupti.launch(5);
        profiler
    };
    // Built as usual, it gets here: dropping ended the session.
    let unwound = std::panic::catch_unwind(|| panic!("the program fails"));
    unwound.map_err(|_| "the panic was unwound".into())
}
