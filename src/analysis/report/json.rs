//! For programs.

use serde_json::{Map, Value, json};

use super::{Section, View};
use crate::analysis::digest::{Busy, Digest};
use crate::summary::escaped;

pub(super) fn json(digest: &Digest, view: &View) -> String {
    let mut object = Map::new();
    let counts = &digest.counts;
    let datasets: Vec<Value> = digest
        .datasets
        .iter()
        .map(|dataset| {
            json!({
                "path": dataset.path,
                "gpus": dataset.gpus,
                "driver": dataset.driver,
                "cupti": dataset.cupti,
                "command": dataset.command,
                "is_complete": dataset.is_complete,
            })
        })
        .collect();
    object.insert("filter".to_owned(), json!(digest.filter));
    object.insert("datasets".to_owned(), Value::Array(datasets));
    object.insert("warnings".to_owned(), json!(digest.warnings));
    object.insert("start_ns".to_owned(), json!(digest.start_ns));
    object.insert("first_ns".to_owned(), json!(digest.first_ns));
    object.insert(
        "counts".to_owned(),
        json!({
            "launches": counts.launches,
            "invalid_launches": counts.invalid_launches,
            "launches_without_range": counts.launches_without_range,
            "transfers": counts.transfers,
            "invalid_transfers": counts.invalid_transfers,
            "ranges": counts.ranges,
            "open_ranges": counts.open_ranges,
            "kernel_ns": counts.kernel_ns,
            "kernel_without_range_ns": counts.kernel_without_range_ns,
            "transfer_ns": counts.transfer_ns,
            "span_ns": counts.span_ns,
        }),
    );
    for section in &view.sections {
        object.insert(section.name().to_owned(), self::section(digest, view, *section));
    }
    escaped::json(&Value::Object(object))
}

fn section(digest: &Digest, view: &View, section: Section) -> Value {
    let values: Vec<Value> = match section {
        Section::Ranges => view
            .ranges(digest)
            .into_iter()
            .map(|range| {
                json!({
                    "path": &*range.path,
                    "name": &*range.name,
                    "depth": range.depth,
                    "kind": &*range.kind,
                    "calls": range.calls,
                    "open_calls": range.open_calls,
                    "host_ns": range.host_ns,
                    "launches": range.launches,
                    "gpu_time_ns": range.gpu_time_ns,
                    "own_launches": range.own_launches,
                    "own_gpu_time_ns": range.own_gpu_time_ns,
                    "share": range.share,
                    "span_ns": range.span_ns,
                })
            })
            .collect(),
        Section::Kernels => view
            .kernels(digest)
            .0
            .into_iter()
            .map(|kernel| {
                json!({
                    "name": &*kernel.name,
                    "calls": kernel.calls,
                    "total_ns": kernel.total_ns,
                    "mean_ns": kernel.mean_ns,
                    "min_ns": kernel.min_ns,
                    "max_ns": kernel.max_ns,
                    "share": kernel.share,
                })
            })
            .collect(),
        Section::Transfers => digest
            .transfers
            .iter()
            .map(|transfer| {
                json!({
                    "kind": &*transfer.kind,
                    "calls": transfer.calls,
                    "bytes": transfer.bytes,
                    "total_ns": transfer.total_ns,
                    "share": transfer.share,
                    "bandwidth_bytes_per_s": transfer.bandwidth_bytes_per_s,
                })
            })
            .collect(),
        Section::Devices => digest
            .devices
            .iter()
            .map(|device| {
                let streams = device.streams.iter().map(|stream| {
                    let mut value = busy(&stream.busy);
                    value.insert("stream".to_owned(), json!(stream.stream));
                    value.insert("context".to_owned(), json!(stream.context));
                    value.insert("dataset".to_owned(), json!(stream.dataset));
                    Value::Object(value)
                });
                let mut value = busy(&device.busy);
                value.insert("device".to_owned(), json!(device.device));
                value.insert("name".to_owned(), json!(device.name));
                value.insert("uuid".to_owned(), json!(device.uuid));
                value.insert("dataset".to_owned(), json!(device.dataset));
                value.insert("streams".to_owned(), streams.collect());
                Value::Object(value)
            })
            .collect(),
        Section::Losses => digest
            .losses
            .iter()
            .map(|lost| json!({ "cause": &*lost.cause, "count": lost.count, "meaning": &*lost.meaning }))
            .collect(),
    };
    Value::Array(values)
}

fn busy(busy: &Busy) -> Map<String, Value> {
    let value = json!({
        "launches": busy.launches,
        "transfers": busy.transfers,
        "span_ns": busy.span_ns,
        "busy_ns": busy.busy_ns,
        "idle_ns": busy.idle_ns,
        "gaps": busy.gaps,
        "longest_gap_ns": busy.longest_gap_ns,
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
