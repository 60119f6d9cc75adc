//! The names of metrics: what they are made of, the unit that a suffix gives, and near names.

use crate::cupti::host::MetricKind;

/// A metric's name in its two parts: `dram__bytes_read` and `sum.per_second`, or no suffix.
pub(super) fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once('.') {
        Some((base, suffix)) => (base, Some(suffix)),
        None => (name, None),
    }
}

/// A metric of this base whose unit is the base's. CUPTI 12.9 knows no base metric without a suffix, and tells the unit
/// with the suffix; newer ones know both, and tell the base's unit always.
pub(super) fn example(kind: MetricKind, base: &str) -> String {
    match kind {
        MetricKind::Counter => format!("{base}.sum"),
        MetricKind::Ratio => format!("{base}.ratio"),
        MetricKind::Throughput => format!("{base}.avg.pct_of_peak_sustained_elapsed"),
    }
}

/// The unit of a metric from that of its base metric.
pub(super) fn unit(kind: MetricKind, base_unit: &str, suffix: Option<&str>) -> String {
    let base = spelled(base_unit);
    if kind == MetricKind::Throughput {
        return "%".to_owned();
    }
    let suffix = suffix.unwrap_or_default();
    // A rollup (over the units of the chip) leaves the unit as it is.
    let rest = match suffix.split_once('.') {
        Some(("sum" | "avg" | "min" | "max", rest)) => rest,
        _ if matches!(suffix, "sum" | "avg" | "min" | "max") => "",
        _ => suffix,
    };
    if rest.starts_with("pct") {
        return "%".to_owned();
    }
    // The most in a second, and what came in one.
    if rest == "per_second" || rest.ends_with(".per_second") {
        return format!("{base}/s");
    }
    if rest.starts_with("per_cycle") || rest.starts_with("peak_sustained") {
        // Warps of all cycles, by cycles, are warps.
        return base.split_once(TIMES).map_or_else(|| format!("{base}/cycle"), |(_, what)| what.to_owned());
    }
    base
}

/// Between the parts of a product.
const TIMES: char = '·';

/// CUPTI's words for units, as people write them. It writes products without a sign (`gpc_cyclewarp`); those that occur
/// begin with a cycle.
fn spelled(unit: &str) -> String {
    const CYCLE: &str = "_cycle";
    let product = unit.find(CYCLE).map(|at| unit.split_at(at + CYCLE.len()));
    match (unit, product) {
        ("", _) => "1".to_owned(),
        ("percent", _) => "%".to_owned(),
        ("nanosecond", _) => "ns".to_owned(),
        ("second", _) => "s".to_owned(),
        (_, Some((cycle, what))) if what.starts_with(char::is_alphabetic) => format!("{cycle}{TIMES}{what}"),
        _ => unit.to_owned(),
    }
}

/// The names that are most like this one, best first.
pub(crate) fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>, most: usize) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    // A name cut short or continued is nearer than one of the same length that is different.
    let score = |candidate: &str| {
        let alike = strsim::jaro_winkler(&name, &candidate.to_ascii_lowercase());
        let contained = !name.is_empty() && (candidate.contains(&name) || name.contains(candidate));
        if contained { alike + 0.2 } else { alike }
    };
    let mut scored: Vec<_> = known.map(|candidate| (score(candidate), candidate)).collect();
    scored.retain(|(score, _)| *score >= 0.75);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(most).map(|(_, candidate)| candidate.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_follows_the_suffix() {
        let counter = |suffix| unit(MetricKind::Counter, "byte", suffix);
        assert_eq!(counter(Some("sum")), "byte");
        assert_eq!(counter(Some("avg.per_second")), "byte/s");
        assert_eq!(counter(Some("sum.per_cycle_elapsed")), "byte/cycle");
        assert_eq!(counter(Some("sum.peak_sustained")), "byte/cycle");
        assert_eq!(counter(Some("sum.peak_sustained_elapsed.per_second")), "byte/s");
        assert_eq!(counter(Some("max.pct_of_peak_sustained_active")), "%");
        assert_eq!(unit(MetricKind::Counter, "nanosecond", Some("sum")), "ns");
        let warps = |suffix| unit(MetricKind::Counter, "gpc_cyclewarp", Some(suffix));
        assert_eq!([warps("sum"), warps("avg.per_cycle_active")], ["gpc_cycle·warp", "warp"]);
        assert_eq!(unit(MetricKind::Ratio, "gpc_cycle/instruction", Some("ratio")), "gpc_cycle/instruction");
        assert_eq!(unit(MetricKind::Ratio, "", Some("ratio")), "1");
        assert_eq!(unit(MetricKind::Ratio, "", Some("pct")), "%");
        assert_eq!(unit(MetricKind::Throughput, "percent", Some("avg.pct_of_peak_sustained_elapsed")), "%");
    }

    #[test]
    fn a_misspelt_name_finds_the_right_one() {
        let known = ["dram__bytes_read", "dram__bytes_write", "sm__cycles_active", "dram__bytes"];
        assert_eq!(near("dram_bytes_read", known.into_iter(), 1), ["dram__bytes_read"]);
        assert_eq!(near("dram__byte_write", known.into_iter(), 1), ["dram__bytes_write"]);
        assert!(near("zzz", known.into_iter(), 3).is_empty());
    }

    #[test]
    fn a_name_is_split_at_its_first_dot() {
        assert_eq!(split("a__b.sum.per_second"), ("a__b", Some("sum.per_second")));
        assert_eq!(split("a__b"), ("a__b", None));
    }
}
