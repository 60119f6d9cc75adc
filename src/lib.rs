//! In-process CUPTI profiler.
