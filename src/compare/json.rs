//! For programs.

use serde_json::{Map, Value, json};

use super::JoinKey;
use super::compared::{Compared, FailOn, Outcome, Row, Side, SideValues};
use super::key::{Key, Mismatch};
use super::self_test::{SPLITS, SelfTest};
use super::text::direction;
use crate::stats::{Comparison, Inconclusive, Verdict};
use crate::summary::escaped;

fn side(side: &Side) -> Value {
    let losses: Vec<Value> = side
        .losses
        .iter()
        .map(|lost| json!({ "cause": &*lost.cause, "count": lost.count, "meaning": &*lost.meaning }))
        .collect();
    json!({
        "label": side.label,
        "process_runs": side.process_runs,
        "gpus": side.gpus,
        "drivers": side.drivers,
        "is_lossy": side.is_lossy,
        "losses": losses,
        "warnings": side.warnings,
        "copies": side.copies,
    })
}

fn key(key: &Key) -> Map<String, Value> {
    JoinKey::ALL.into_iter().map(|name| (name.name().to_owned(), json!(key.get(name)))).collect()
}

fn mismatch(mismatch: &Mismatch) -> Value {
    json!({
        "key": mismatch.key.name(),
        "base": mismatch.base.as_deref(),
        "new": mismatch.new.as_deref(),
        "only_in": mismatch.only_in,
        "is_ambiguous": mismatch.is_ambiguous,
    })
}

fn values(values: Option<&SideValues>) -> Value {
    values.map_or(Value::Null, |values| {
        json!({
            "process_runs": values.process_runs,
            "values": values.values,
            "values_least": values.values_of_a_run.map(|values| values.0),
            "values_most": values.values_of_a_run.map(|values| values.1),
            "invalid": values.invalid,
            "time_ns": values.time_ns,
            "sm_clock_mhz": values.sm_clock_mhz,
            "launches_least": values.launches.map(|launches| launches.0),
            "launches_most": values.launches.map(|launches| launches.1),
        })
    })
}

fn comparison(comparison: Option<&Comparison>, margin: f64) -> Value {
    comparison.map_or(Value::Null, |found| {
        let interval = found.change_interval();
        json!({
            "change_ratio": found.change_ratio(),
            "change_low": interval.map(|interval| interval.low),
            "change_high": interval.map(|interval| interval.high),
            // An infinite error is none.
            "log_standard_error": Some(found.standard_error).filter(|error| error.is_finite()),
            "df": found.df,
            "n": found.n,
            "p_slower": found.p_slower(margin),
        })
    })
}

fn row(row: &Row, margin: f64) -> Value {
    let more = match row.outcome {
        Outcome::Compared(Verdict::Inconclusive(Inconclusive::Overlap { more })) => more,
        _ => None,
    };
    let mismatches = match &row.outcome {
        Outcome::Incomparable(mismatches) => mismatches.as_slice(),
        Outcome::Compared(_) => &[],
    };
    let told = json!({
        "verdict": row.verdict(),
        "reason": row.reason(),
        "more_needed": more,
        "direction": direction(row),
        "is_within_run": row.is_within_run,
        "base": values(row.base.as_ref()),
        "new": values(row.new.as_ref()),
        "times": comparison(row.comparison.as_ref(), margin),
        "cycles": comparison(row.in_cycles.as_ref(), margin),
        "mismatches": mismatches.iter().map(mismatch).collect::<Vec<Value>>(),
        "allowed": row.allowed.iter().map(mismatch).collect::<Vec<Value>>(),
        "only_in_base": row.only_in_base.iter().map(|name| &**name).collect::<Vec<&str>>(),
        "only_in_new": row.only_in_new.iter().map(|name| &**name).collect::<Vec<&str>>(),
        "notes": row.notes(),
    });
    let mut object = Map::new();
    object.insert("key".to_owned(), Value::Object(key(&row.key)));
    if let Value::Object(told) = told {
        object.extend(told);
    }
    Value::Object(object)
}

impl Compared {
    /// JSON: an object with both sides, the rules, and a list of all rows by key. Names of fields are those of the structs
    /// here; ratios are shares of 1, and what there is not is null.
    #[must_use]
    pub fn to_json(&self, fail_on: FailOn, allow_losses: bool) -> String {
        let rules = &self.rules;
        let counts: Map<String, Value> = super::text::VERDICTS
            .iter()
            .map(|verdict| ((*verdict).to_owned(), json!(self.count(verdict))))
            .collect();
        escaped::json(&json!({
            "exit_code": self.exit_code(fail_on, allow_losses),
            "counts": counts,
            "base": side(&self.base),
            "new": side(&self.new),
            "is_interleaved": self.is_interleaved,
            "in_common": self.in_common,
            "notes": self.notes(),
            "rules": {
                "metric": rules.metric,
                "margin": rules.margin,
                "false_discovery_rate": rules.false_discovery_rate,
                "block_runs": rules.block_runs,
                "allow": rules.allow.iter().map(|key| key.name()).collect::<Vec<_>>(),
                "allow_single_run": rules.allow_single_run,
                "allow_unknown_clock": rules.allow_unknown_clock,
            },
            "left_out": self.left_out.iter().map(mismatch).collect::<Vec<Value>>(),
            "rows": self.rows.iter().map(|found| row(found, rules.margin)).collect::<Vec<Value>>(),
        }))
    }
}

impl SelfTest {
    /// JSON: the share of alarms, of all rows and of each.
    #[must_use]
    pub fn to_json(&self, allow_losses: bool) -> String {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "key": key(&row.key),
                    "alarms_ratio": row.alarms_ratio,
                    "is_by_process": row.is_by_process,
                    "parts": row.parts,
                    "process_runs": row.process_runs,
                })
            })
            .collect();
        escaped::json(&json!({
            "exit_code": self.exit_code(allow_losses),
            "side": side(&self.side),
            "splits": SPLITS,
            "verdict": self.verdict(),
            "notes": self.notes(),
            "alarms_ratio": self.alarms_ratio(),
            "allow_single_run": self.rules.allow_single_run,
            "rows": rows,
        }))
    }
}
