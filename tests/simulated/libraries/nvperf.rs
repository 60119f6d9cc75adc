//! Stands for the two libraries that libcupti opens when counters are used. The simulated one needs nothing of them.
