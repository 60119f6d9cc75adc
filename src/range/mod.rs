//! Ranges: registry, thread stacks, process sets, NVTX, guards.
