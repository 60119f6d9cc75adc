//! A shared library's NVTX is an instance of its own: without a tool its calls do nothing, and the handler that is
//! linked into this program does not see them. How they are seen is in `tests/gpu/nvtx_libraries.rs`.

use std::path::PathBuf;

use cuprof::testing;

#[path = "gpu/plugin.rs"]
mod plugin;

use plugin::Plugin;

/// Where cargo puts it: beside the folder of this program.
fn path() -> PathBuf {
    let mut path = std::env::current_exe().unwrap_or_default();
    path.pop();
    path.pop();
    path.join("examples/libnvtx_plugin.so")
}

#[test]
fn without_a_tool_its_calls_do_nothing() -> Result<(), Box<dyn std::error::Error>> {
    const NVTX_NO_PUSH_POP_TRACKING: i32 = -2;
    let path = path();
    let build = "cargo build --features nvtx --example nvtx_plugin";
    assert!(path.exists(), "{} is missing: `{build}` makes it", path.display());
    let plugin = Plugin::open(&path)?;
    testing::begin_session();
    nvtx::mark(c"of the program");
    assert_eq!(plugin.push(c"pushed"), NVTX_NO_PUSH_POP_TRACKING);
    plugin.push_in_domain(c"pushed in a domain");
    let id = plugin.start(c"started");
    plugin.mark(c"mark");
    plugin.end(id);
    plugin.pop_in_domain();
    assert_eq!(plugin.pop(), NVTX_NO_PUSH_POP_TRACKING);
    testing::end_session();
    let seen: Vec<_> = testing::drain().into_iter().map(|event| (event.what, event.name)).collect();
    assert_eq!(seen, [("mark", "of the program".to_owned())]);
    Ok(())
}
