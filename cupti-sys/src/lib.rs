//! Generated CUPTI bindings, record layouts and a loader.
/// Result codes by name.
pub mod result {
    /// The name of a code.
    #[must_use]
    pub fn name(_code: i32) -> Option<&'static str> {
        None
    }
}
