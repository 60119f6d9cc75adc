//! What a counted range reached of what its GPU can do, and what that rests on.

use std::fmt;
use std::time::Duration;

use super::counted::Counted;
use super::plan::PlannedMetric;
use crate::cupti::host::MetricKind;
use crate::error::{Error, ErrorKind, Result};

/// From which part of a ceiling on a range is taken to be limited by it. Below, no unit is busy enough to be what the
/// range waits for: it waits for latencies, launches, or too little work at once.
pub const LIMITED_FROM_RATIO: f64 = 0.6;

/// What a counted range reached, beside what the GPU can do. Made by [`Counted::roofline`].
///
/// Nothing here is a property of a product that somebody wrote down: peaks are the metrics' own
/// (`….peak_sustained`, what all units together can do in a cycle) at the clocks that were counted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Roofline {
    /// The time that rates are by, and where it comes from.
    pub duration_ns: f64,
    /// Whether the time was given, and not counted.
    pub duration_is_given: bool,
    /// Bytes to and from device memory: `dram__bytes.sum`, or read and written ones.
    pub dram_bytes: Option<f64>,
    /// Floating-point operations by precision, a multiply-add being two; without those of tensor cores.
    pub flop: Vec<(Precision, f64)>,
    /// Floating-point operations by bytes of device memory; none where either is unknown, or no byte was moved.
    pub flop_per_byte: Option<f64>,
    /// Every ceiling that could be computed, the one that is reached most first.
    pub ceilings: Vec<Ceiling>,
    /// What limits the range.
    pub bound: Bound,
}

/// Something that a GPU can do only so fast.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ceiling {
    /// What it is of.
    pub unit: Unit,
    /// How much of it was reached: 1 is all.
    pub ratio: f64,
    /// What was reached and what can be, by second, and in which unit; none where CUPTI gives the ratio only.
    pub rate: Option<Rate>,
    /// The metrics that this was computed from, with their values.
    pub from: Vec<(&'static str, f64)>,
}

/// A rate and its peak.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rate {
    /// What the range reached.
    pub reached_per_second: f64,
    /// What the GPU can do at the clocks that were counted.
    pub peak_per_second: f64,
    /// `byte` or `flop`.
    pub unit: &'static str,
}

/// A precision of floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// 16 bits.
    Half,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

/// A part of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Device memory.
    Dram,
    /// The L2 cache.
    L2,
    /// The L1 caches, with shared memory.
    L1,
    /// Floating-point pipes of the SMs.
    Flop(Precision),
    /// Tensor cores.
    Tensor,
    /// The SMs, by whichever part of them is busiest.
    Sm,
}

/// What limits a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// Moving data.
    Memory,
    /// Computing.
    Compute,
    /// None of the known ceilings: each is reached to less than [`LIMITED_FROM_RATIO`].
    Neither,
    /// There is no ceiling to compare with: the metrics for one were not counted.
    Unknown,
}

impl Unit {
    /// Which kind of limit it is.
    #[must_use]
    pub fn bound(self) -> Bound {
        match self {
            Self::Dram | Self::L2 | Self::L1 => Bound::Memory,
            Self::Flop(_) | Self::Tensor | Self::Sm => Bound::Compute,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dram => "device memory",
            Self::L2 => "L2 cache",
            Self::L1 => "L1 caches",
            Self::Flop(Precision::Half) => "half precision",
            Self::Flop(Precision::Single) => "single precision",
            Self::Flop(Precision::Double) => "double precision",
            Self::Tensor => "tensor cores",
            Self::Sm => "SMs",
        })
    }
}

impl Bound {
    /// The verdict in a word: `memory`, `compute`, `neither`, `unknown`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
            Self::Neither => "neither",
            Self::Unknown => "unknown",
        }
    }
}

const TIME: &str = "gpu__time_duration.sum";
const SM_CLOCK: &str = "sm__cycles_elapsed.avg.per_second";
const DRAM_CLOCK: &str = "dram__cycles_elapsed.avg.per_second";
const DRAM_BYTES: &str = "dram__bytes.sum";
const DRAM_READ: &str = "dram__bytes_read.sum";
const DRAM_WRITTEN: &str = "dram__bytes_write.sum";
const DRAM_PEAK: &str = "dram__bytes.sum.peak_sustained";

/// Of each precision: additions, multiplications, multiply-adds, and the most multiply-adds in a cycle.
const FLOP: [(Precision, [&str; 3], &str); 3] = [
    (
        Precision::Half,
        [
            "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
        ],
        "sm__sass_thread_inst_executed_op_hfma_pred_on.sum.peak_sustained",
    ),
    (
        Precision::Single,
        [
            "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        ],
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
    ),
    (
        Precision::Double,
        [
            "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
        ],
        "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained",
    ),
];

/// Percentages of a peak that CUPTI computes itself. Those of `elapsed` cycles are lower, the longer a range is idle
/// around its kernels; those of `active` cycles are not.
const PERCENTAGES: [(Unit, &str); 6] = [
    (Unit::Dram, "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    (Unit::L2, "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    (Unit::L1, "l1tex__throughput.avg.pct_of_peak_sustained_active"),
    (Unit::Sm, "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    (Unit::Tensor, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
    (Unit::Tensor, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
];

impl Roofline {
    pub(crate) fn new(value: impl Fn(&'static str) -> Option<f64>, given: Option<Duration>) -> Option<Self> {
        let value = |metric| value(metric).filter(|value: &f64| value.is_finite());
        let counted_ns = value(TIME).filter(|time| *time > 0.0);
        let given_ns = given.map(|given| given.as_secs_f64() * 1e9).filter(|time| *time > 0.0);
        let duration_ns = given_ns.or(counted_ns)?;
        let seconds = duration_ns / 1e9;

        let dram_bytes = value(DRAM_BYTES).or_else(|| Some(value(DRAM_READ)? + value(DRAM_WRITTEN)?));
        let flop: Vec<_> = FLOP
            .iter()
            .filter_map(|(precision, [add, multiply, both], _)| {
                Some((*precision, value(add)? + value(multiply)? + 2.0 * value(both)?))
            })
            .collect();
        let all_flop: f64 = flop.iter().map(|(_, flop)| flop).sum();
        let flop_per_byte =
            dram_bytes.filter(|bytes| *bytes > 0.0 && !flop.is_empty()).map(|bytes| all_flop / bytes);

        let mut ceilings = Vec::new();
        let known = |metrics: &[&'static str]| -> Vec<_> {
            metrics.iter().filter_map(|metric| Some((*metric, value(metric)?))).collect()
        };
        if let (Some(bytes), Some(peak), Some(clock_hz)) = (dram_bytes, value(DRAM_PEAK), value(DRAM_CLOCK)) {
            let rate =
                Rate { reached_per_second: bytes / seconds, peak_per_second: peak * clock_hz, unit: "byte" };
            let from = known(&[DRAM_BYTES, DRAM_READ, DRAM_WRITTEN, DRAM_PEAK, DRAM_CLOCK]);
            ceilings.extend(rate.ceiling(Unit::Dram, from));
        }
        for (precision, [add, multiply, both], peak) in FLOP {
            let Some((_, reached)) = flop.iter().find(|(of, _)| *of == precision) else { continue };
            let (Some(most), Some(clock_hz)) = (value(peak), value(SM_CLOCK)) else { continue };
            let rate = Rate {
                reached_per_second: reached / seconds,
                peak_per_second: 2.0 * most * clock_hz,
                unit: "flop",
            };
            let from = known(&[add, multiply, both, peak, SM_CLOCK]);
            ceilings.extend(rate.ceiling(Unit::Flop(precision), from));
        }
        for (unit, metric) in PERCENTAGES {
            // Once for each unit, by the better source.
            if ceilings.iter().any(|known| known.unit == unit) {
                continue;
            }
            let Some(percent) = value(metric) else { continue };
            let mut from = vec![(metric, percent)];
            let mut ratio = percent / 100.0;
            if let (Some(given), Some(counted)) = (given_ns, counted_ns)
                && metric.ends_with("elapsed")
            {
                // What idles around the kernels is no part of the time that was given.
                ratio *= counted / given;
                from.push((TIME, counted));
            }
            ceilings.push(Ceiling { unit, ratio, rate: None, from });
        }
        ceilings.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
        let bound = match ceilings.first() {
            None => Bound::Unknown,
            Some(most) if most.ratio < LIMITED_FROM_RATIO => Bound::Neither,
            Some(most) => most.unit.bound(),
        };
        Some(Self {
            duration_ns,
            duration_is_given: given_ns.is_some(),
            dram_bytes,
            flop,
            flop_per_byte,
            ceilings,
            bound,
        })
    }

    /// The ceiling of this unit, if its metrics were counted.
    #[must_use]
    pub fn ceiling(&self, unit: Unit) -> Option<&Ceiling> {
        self.ceilings.iter().find(|ceiling| ceiling.unit == unit)
    }
}

impl Rate {
    /// How much of the peak it is; none where there is no peak.
    fn ceiling(self, unit: Unit, from: Vec<(&'static str, f64)>) -> Option<Ceiling> {
        let ratio = self.reached_per_second / self.peak_per_second;
        ratio.is_finite().then_some(Ceiling { unit, ratio, rate: Some(self), from })
    }
}

impl fmt::Display for Roofline {
    /// The verdict with the numbers that it rests on, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = if self.duration_is_given { "given" } else { "counted" };
        write!(f, "limited by: {}, in {:.1} us ({source})", self.bound.as_str(), self.duration_ns / 1e3)?;
        if let Some(intensity) = self.flop_per_byte {
            write!(f, ", {intensity:.2} flop/byte")?;
        }
        if self.ceilings.is_empty() {
            f.write_str("\n  nothing to compare with was counted: the preset roofline has it")?;
        }
        for Ceiling { unit, ratio, rate, from } in &self.ceilings {
            write!(f, "\n  {unit}: {:.1} %", ratio * 100.0)?;
            if let Some(Rate { reached_per_second, peak_per_second, unit }) = rate {
                let giga = |rate: f64| rate / 1e9;
                write!(f, " ({:.1} of {:.1} G{unit}/s)", giga(*reached_per_second), giga(*peak_per_second))?;
            }
            for (metric, value) in from {
                write!(f, "\n    {metric} = {value}")?;
            }
        }
        Ok(())
    }
}

/// One metric of some ranges, and of the range that replaces them. Made by [`Counted::saved`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Saved {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The sum over the ranges that are replaced.
    pub before: f64,
    /// Of the range that replaces them.
    pub after: f64,
}

impl Saved {
    /// How much less it is; negative for more.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.before - self.after
    }

    /// What is left of it: 0.5 is half. None where there was none.
    #[must_use]
    pub fn left_ratio(&self) -> Option<f64> {
        (self.before > 0.0).then(|| self.after / self.before)
    }
}

impl Counted {
    /// What the first range with this path, or the kernel with this name, reached of what the GPU can do.
    ///
    /// Plan the preset `roofline` for all of it; percentages of the preset `headline` and others are ceilings, too. The
    /// time is `gpu__time_duration.sum`. Around short kernels a counted range idles for some 10 µs, which makes every rate
    /// lower: [`roofline_in`](Self::roofline_in) takes the traced duration instead.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where there is no such range, or no time.
    pub fn roofline(&self, range: &str) -> Result<Roofline> {
        self.roofline_of(range, None)
    }

    /// The same by the duration that the work takes when nothing is counted, such as `gpu_sum_ns` of the traced range.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where there is no such range.
    pub fn roofline_in(&self, range: &str, duration: Duration) -> Result<Roofline> {
        self.roofline_of(range, Some(duration))
    }

    fn roofline_of(&self, range: &str, given: Option<Duration>) -> Result<Roofline> {
        self.must_have(range)?;
        Roofline::new(|metric| self.value(range, metric), given).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("the time of {range:?} is not known"))
                .with_hint(format!("count {TIME} (it takes no pass), or give a traced duration"))
        })
    }

    /// What one range saves over the ranges that it replaces, such as a fused kernel: one row for each counted metric
    /// that is a sum over the chip (`….sum`), in the plan's order. Metrics without a value in one of the ranges are left
    /// out. Of ranges with the same path, the first is meant.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where there is no such range.
    pub fn saved<'a>(&self, replaced: impl IntoIterator<Item = &'a str>, by: &str) -> Result<Vec<Saved>> {
        let replaced: Vec<_> = replaced.into_iter().collect();
        replaced.iter().chain([&by]).try_for_each(|range| self.must_have(range))?;
        let sums = self.plan.metrics().iter().filter(|planned| {
            planned.metric.kind == MetricKind::Counter && planned.metric.name.ends_with(".sum")
        });
        Ok(sums
            .filter_map(|PlannedMetric { metric, .. }| {
                let before = replaced.iter().map(|range| self.value(range, &metric.name));
                Some(Saved {
                    metric: metric.name.clone(),
                    unit: metric.unit.clone(),
                    before: before.sum::<Option<f64>>()?,
                    after: self.value(by, &metric.name)?,
                })
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chip of 1 GHz whose memory moves 1000 bytes and whose SMs make 500 multiply-adds in a cycle.
    fn counted(bytes: f64, fma: f64, time_ns: f64) -> impl Fn(&'static str) -> Option<f64> {
        move |metric| match metric {
            TIME => Some(time_ns),
            SM_CLOCK | DRAM_CLOCK => Some(1e9),
            DRAM_BYTES => Some(bytes),
            DRAM_PEAK => Some(1000.0),
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum" => Some(fma),
            "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum" => Some(0.0),
            "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum" => Some(0.0),
            "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained" => Some(500.0),
            _ => None,
        }
    }

    #[test]
    fn a_copy_is_limited_by_memory_and_a_chain_of_multiply_adds_by_computing() {
        let copy = Roofline::new(counted(900e3, 0.0, 1000.0), None).unwrap();
        assert_eq!((copy.bound, copy.flop_per_byte), (Bound::Memory, Some(0.0)));
        let dram = copy.ceiling(Unit::Dram).unwrap();
        assert_eq!(dram.ratio, 0.9);
        let rate = dram.rate.unwrap();
        assert_eq!((rate.reached_per_second, rate.peak_per_second), (9e11, 1e12));

        let chain = Roofline::new(counted(1e3, 400e3, 1000.0), None).unwrap();
        assert_eq!((chain.bound, chain.flop_per_byte), (Bound::Compute, Some(800.0)));
        assert_eq!(chain.ceilings[0].unit, Unit::Flop(Precision::Single));
        assert_eq!(chain.ceilings[0].ratio, 0.8);
        assert!(chain.to_string().contains("single precision: 80.0 % (800.0 of 1000.0 Gflop/s)"), "{chain}");
    }

    #[test]
    fn work_that_reaches_no_ceiling_is_limited_by_neither() {
        let small = Roofline::new(counted(100e3, 100e3, 1000.0), None).unwrap();
        assert_eq!(small.bound, Bound::Neither);
        assert!(small.ceilings.iter().all(|ceiling| ceiling.ratio < LIMITED_FROM_RATIO));
    }

    #[test]
    fn a_given_duration_is_what_rates_are_by() {
        let diluted = Roofline::new(counted(900e3, 0.0, 4000.0), None).unwrap();
        assert_eq!((diluted.bound, diluted.duration_is_given), (Bound::Neither, false));
        let given = Roofline::new(counted(900e3, 0.0, 4000.0), Some(Duration::from_micros(1))).unwrap();
        assert_eq!((given.bound, given.duration_is_given), (Bound::Memory, true));
        // A percentage of elapsed cycles is of the counted time; one of active cycles is not.
        let percentages = |metric| match metric {
            TIME => Some(4000.0),
            "sm__throughput.avg.pct_of_peak_sustained_elapsed" => Some(20.0),
            "l1tex__throughput.avg.pct_of_peak_sustained_active" => Some(30.0),
            _ => None,
        };
        let given = Roofline::new(percentages, Some(Duration::from_micros(1))).unwrap();
        let ratios: Vec<_> = given.ceilings.iter().map(|ceiling| (ceiling.unit, ceiling.ratio)).collect();
        assert_eq!(ratios, [(Unit::Sm, 0.8), (Unit::L1, 0.3)]);
        assert_eq!(given.bound, Bound::Compute);
    }

    #[test]
    fn what_was_not_counted_is_not_guessed() {
        let time_only = |metric| (metric == TIME).then_some(1000.0);
        let roofline = Roofline::new(time_only, None).unwrap();
        assert_eq!(
            (roofline.bound, roofline.dram_bytes, roofline.flop_per_byte),
            (Bound::Unknown, None, None)
        );
        assert!(roofline.ceilings.is_empty() && roofline.flop.is_empty());
        assert_eq!(Roofline::new(|_| None, None), None);
        assert_eq!(Roofline::new(|metric| (metric == TIME).then_some(f64::NAN), None), None);
        // No byte was moved.
        assert_eq!(Roofline::new(counted(0.0, 1.0, 1000.0), None).unwrap().flop_per_byte, None);
    }

    #[test]
    fn what_is_saved_is_a_difference_and_a_ratio() {
        let saved = |before, after| Saved { metric: "m".into(), unit: "byte".into(), before, after };
        assert_eq!((saved(10.0, 4.0).difference(), saved(10.0, 4.0).left_ratio()), (6.0, Some(0.4)));
        assert_eq!(saved(0.0, 4.0).left_ratio(), None);
    }
}
