//! Generated CUPTI bindings, record layouts and a loader.
