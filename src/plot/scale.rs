//! From values to places along an axis.

use super::unit::Unit;

/// How the values of an axis are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spacing {
    /// Logarithmic where the largest value is more than 30 times the least and none is below zero; else linear.
    #[default]
    Auto,
    /// Linear, from zero.
    Linear,
    /// Linear, from the least value to the greatest.
    Fit,
    /// Logarithmic; values of zero and below have no place.
    Log,
}

/// From which ratio of the largest value to the least an axis is logarithmic.
const LOG_FROM_RATIO: f64 = 30.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    pub text: String,
}

/// An axis with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
    pub ticks: Vec<Tick>,
    /// Lines between them.
    pub minor: Vec<f64>,
    /// The unit of all texts of ticks; empty where each has its own.
    pub unit: String,
}

impl Scale {
    /// Of these values. None is no value that has a place.
    pub fn of(values: impl Iterator<Item = f64>, spacing: Spacing, unit: &Unit, most_ticks: usize) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least_positive =
            values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let is_log = match spacing {
            Spacing::Auto => least > 0.0 && least.is_finite() && most / least > LOG_FROM_RATIO,
            Spacing::Log => least_positive.is_finite(),
            Spacing::Linear | Spacing::Fit => false,
        };
        if is_log {
            Self::log(least_positive, most.max(least_positive), unit, most_ticks)
        } else if values.is_empty() {
            Self::linear(0.0, 1.0, unit, most_ticks)
        } else if spacing == Spacing::Fit {
            Self::linear(least, most, unit, most_ticks)
        } else {
            Self::linear(least.min(0.0), most.max(0.0), unit, most_ticks)
        }
    }

    /// From one number to another and a little further, without ticks.
    pub fn tight(least: f64, most: f64, is_log: bool) -> Self {
        const MARGIN: f64 = 0.03;
        let (low, high) = if is_log {
            let further = (most / least).powf(MARGIN);
            (least / further, most * further)
        } else {
            let further = (most - least) * MARGIN;
            (least - further, most + further)
        };
        Self { is_log, low, high, ticks: Vec::new(), minor: Vec::new(), unit: String::new() }
    }

    fn linear(least: f64, most: f64, unit: &Unit, most_ticks: usize) -> Self {
        let largest = least.abs().max(most.abs());
        let span = most - least;
        // One value that is all there is stands in the middle.
        let (least, most) = match () {
            () if largest == 0.0 => (0.0, 1.0),
            () if span <= largest * 1e-9 => (least - largest * 0.1, most + largest * 0.1),
            () => (least, most + span * 0.04),
        };
        let step = nice_step((most - least) / most_ticks.max(1) as f64);
        let low = (least / step + 1e-9).floor() * step;
        let high = (most / step - 1e-9).ceil() * step;
        let (divisor, text) = unit.scaled(low.abs().max(high.abs()));
        let in_unit = step / divisor;
        // CAST: a few
        let decimals = (-(in_unit.log10() + 1e-9)).ceil().clamp(0.0, 12.0) as usize;
        // A step of 2.5 needs one more.
        let decimals = decimals + usize::from(is_two_and_a_half(in_unit));
        let count = ((high - low) / step).round() as usize; // CAST: not many more than were asked for
        let tick = |place: usize| {
            let value = low + place as f64 * step;
            let value = if value.abs() < step * 1e-6 { 0.0 } else { value };
            Tick { value, text: format!("{:.decimals$}", value / divisor) }
        };
        let ticks = (0..=count).map(tick).collect();
        Self { is_log: false, low, high, ticks, minor: Vec::new(), unit: text }
    }

    fn log(least: f64, most: f64, unit: &Unit, most_ticks: usize) -> Self {
        // Rounded outwards to 1, 2 or 5 times a power of ten.
        let (least, most) = (least * 0.97, most * 1.03);
        let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32); // CAST: powers of a double
        let all: Vec<f64> = (first..=last)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
            .collect();
        let low = all.iter().copied().filter(|value| *value <= least).fold(10_f64.powi(first), f64::max);
        let high = all.iter().copied().filter(|value| *value >= most).fold(10_f64.powi(last), f64::min);
        let inside = |value: &f64| (low * 0.999..=high * 1.001).contains(value);
        let mut ticks: Vec<f64> = all.iter().copied().filter(inside).collect();
        let powers: Vec<f64> =
            (first..=last).map(|power| 10_f64.powi(power)).filter(|value| inside(value)).collect();
        if ticks.len() > most_ticks && powers.len() > 1 {
            let stride = powers.len().div_ceil(most_ticks.max(2));
            ticks = powers.iter().copied().step_by(stride).collect();
        }
        let minor = if powers.len() <= 7 {
            (first..=last)
                .flat_map(|power| (1..10).map(move |digit| f64::from(digit) * 10_f64.powi(power)))
                .filter(|value| inside(value) && !ticks.iter().any(|tick| (tick / value - 1.0).abs() < 1e-6))
                .collect()
        } else {
            powers.into_iter().filter(|value| !ticks.contains(value)).collect()
        };
        let ticks = ticks.into_iter().map(|value| Tick { value, text: unit.text(value) }).collect();
        Self { is_log: true, low, high, ticks, minor, unit: String::new() }
    }

    /// The same, ending at this value.
    pub fn up_to(mut self, high: f64) -> Self {
        self.high = high;
        self.ticks.retain(|tick| tick.value <= high);
        self
    }

    /// How far along the axis: 0 to 1. None is for what has no place on it.
    pub fn place(&self, value: f64) -> Option<f64> {
        let share = if self.is_log {
            if value <= 0.0 {
                return None;
            }
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.is_finite().then(|| share.clamp(0.0, 1.0))
    }

    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// Both ends.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}

/// 1, 2, 2.5 or 5 times a power of ten, not less than this.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf((least.log10() + 1e-9).floor());
    let digit = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|digit| digit * power >= least * 0.999_999);
    digit.unwrap_or(10.0) * power
}

fn is_two_and_a_half(step: f64) -> bool {
    let digit = step / 10_f64.powf((step.log10() + 1e-9).floor());
    (digit - 2.5).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[f64], spacing: Spacing, unit: &str) -> (Vec<String>, String) {
        let scale = Scale::of(values.iter().copied(), spacing, &Unit::of(unit), 6);
        (scale.ticks.into_iter().map(|tick| tick.text).collect(), scale.unit)
    }

    #[test]
    fn ticks_are_round_numbers_in_one_unit() {
        assert_eq!(
            texts(&[1_234.0, 9_876.0], Spacing::Linear, "ns"),
            (strings(&["0", "2", "4", "6", "8", "10", "12"]), "µs".into())
        );
        assert_eq!(
            texts(&[0.4, 0.9], Spacing::Linear, ""),
            (strings(&["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]), String::new())
        );
        assert_eq!(
            texts(&[1_000.0, 1_010.0], Spacing::Fit, "ns").0,
            strings(&["1.000", "1.002", "1.004", "1.006", "1.008", "1.010", "1.012"])
        );
        assert_eq!(texts(&[], Spacing::Auto, "ns").0.len(), 7);
        assert_eq!(texts(&[0.0, 0.0], Spacing::Auto, "ns").0.len(), 6);
    }

    #[test]
    fn a_wide_spread_has_a_logarithmic_axis() {
        let (ticks, unit) = texts(&[1e3, 1e9], Spacing::Auto, "ns");
        assert_eq!((ticks, unit), (strings(&["1 µs", "100 µs", "10 ms", "1 s"]), String::new()));
        assert_eq!(
            texts(&[30.0, 900.0], Spacing::Log, "ns").0,
            strings(&["20 ns", "50 ns", "100 ns", "200 ns", "500 ns", "1 µs"])
        );
    }

    #[test]
    fn values_below_zero_are_on_no_logarithmic_axis() {
        let scale = Scale::of([-1.0, 5.0].into_iter(), Spacing::Log, &Unit::none(), 5);
        assert_eq!(scale.place(-1.0), None);
        assert!(scale.place(5.0).is_some());
        assert!(!Scale::of([-1.0, 5e9].into_iter(), Spacing::Auto, &Unit::none(), 5).is_log());
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }
}
