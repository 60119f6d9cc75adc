//! What a piece of work did, for comparison with what a profiler saw.

use std::collections::BTreeMap;

use crate::Kernel;

/// A number of copies or fills, and the bytes that they moved together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many.
    pub count: u64,
    /// Bytes moved by all of them.
    pub bytes: u64,
}

/// Everything that a piece of work started on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Kernel executions by the kernel's demangled name.
    pub kernels: BTreeMap<String, u64>,
    /// Copies by copy kind (`host_to_device`, …).
    pub copies: BTreeMap<&'static str, Traffic>,
    /// Fills (memset).
    pub fills: Traffic,
}

impl Expected {
    /// Adds executions of a kernel.
    #[must_use]
    pub fn kernel(mut self, kernel: Kernel, count: u64) -> Self {
        *self.kernels.entry(kernel.demangled().to_owned()).or_default() += count;
        self
    }

    /// Adds `count` copies of `bytes` each.
    #[must_use]
    pub fn copy(mut self, kind: &'static str, count: u64, bytes: u64) -> Self {
        let traffic = self.copies.entry(kind).or_default();
        traffic.count += count;
        traffic.bytes += count * bytes;
        self
    }

    /// Adds `count` fills of `bytes` each.
    #[must_use]
    pub fn fill(mut self, count: u64, bytes: u64) -> Self {
        self.fills.count += count;
        self.fills.bytes += count * bytes;
        self
    }

    /// Adds all that another piece of work did.
    pub fn add(&mut self, other: &Self) {
        for (name, count) in &other.kernels {
            *self.kernels.entry(name.clone()).or_default() += count;
        }
        for (kind, traffic) in &other.copies {
            let entry = self.copies.entry(kind).or_default();
            entry.count += traffic.count;
            entry.bytes += traffic.bytes;
        }
        self.fills.count += other.fills.count;
        self.fills.bytes += other.fills.bytes;
    }

    /// The same work done `times` times.
    #[must_use]
    pub fn times(&self, times: u64) -> Self {
        let mut all = self.clone();
        all.kernels.values_mut().for_each(|count| *count *= times);
        for traffic in all.copies.values_mut().chain([&mut all.fills]) {
            traffic.count *= times;
            traffic.bytes *= times;
        }
        all
    }

    /// Kernel executions of all names.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.kernels.values().sum()
    }

    /// Copies and fills.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.copies.values().map(|traffic| traffic.count).sum::<u64>() + self.fills.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_work_keep_names_counts_and_bytes() {
        let step = Expected::default().kernel(Kernel::Saxpy, 2).copy("host_to_device", 3, 100).fill(1, 64);
        let mut sum = step.times(2);
        sum.add(&Expected::default().kernel(Kernel::Empty, 1));
        assert_eq!(sum.launches(), 5);
        assert_eq!(sum.transfers(), 8);
        assert_eq!(sum.copies["host_to_device"], Traffic { count: 6, bytes: 600 });
        assert_eq!(sum.kernels["saxpy(float*, float*, float, int)"], 4);
    }
}
