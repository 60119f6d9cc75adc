//! What the files look like inside.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use arrow_schema::DataType;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::samples::{fill, launch, range, write};
use crate::error::Result;
use crate::table::schema::{SCHEMA_VERSION, Table};
use crate::table::table_writer::{ROW_GROUP_ROWS, ROW_GROUP_TEXT_BYTES};
use crate::table::writer::{TableSink, WriterOptions};

fn metadata(path: &Path) -> ParquetMetaData {
    let file = File::open(path).expect("the part is there");
    SerializedFileReader::new(file).expect("the part is whole").metadata().clone()
}

fn written_launches(folder: &Path) -> Result<ParquetMetaData> {
    let options = WriterOptions {
        provenance: vec![("gpu.name".into(), "NVIDIA H200".into())],
        ..WriterOptions::default()
    };
    let rows = ROW_GROUP_ROWS as i64 + 1_000;
    let names: Vec<_> = (0..3).map(|i| launch(i).kernel).collect();
    write(folder, options, |writer| {
        for i in 0..rows {
            let mut row = launch(i % 900);
            row.kernel = names[i as usize % 3].clone();
            row.work.start_ns += i * 5_000;
            row.work.end_ns += i * 5_000;
            writer.launch(&row);
        }
    })?;
    Ok(metadata(&folder.join("launches-00000.parquet")))
}

#[test]
fn columns_have_the_encodings_of_their_kinds() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let metadata = written_launches(folder.path())?;
    assert_eq!(metadata.num_row_groups(), 2);
    assert_eq!(metadata.row_group(0).num_rows(), ROW_GROUP_ROWS as i64);

    let encodings: BTreeMap<&str, (Vec<Encoding>, bool)> = metadata
        .row_group(0)
        .columns()
        .iter()
        .map(|column| {
            let encodings = column.encodings().filter(|encoding| *encoding != Encoding::RLE).collect();
            (column.column_descr().name(), (encodings, column.dictionary_page_offset().is_some()))
        })
        .collect();
    for name in ["range_id", "start_ns", "end_ns", "duration_ns", "launch_lead_ns", "correlation_id"] {
        assert_eq!(encodings[name], (vec![Encoding::DELTA_BINARY_PACKED], false), "{name}");
    }
    for name in ["kernel", "kernel_mangled", "range_path", "attribution", "stream", "grid_x", "graph_node_id"]
    {
        assert_eq!(encodings[name], (vec![Encoding::PLAIN, Encoding::RLE_DICTIONARY], true), "{name}");
    }
    assert_eq!(encodings["valid"], (vec![Encoding::PLAIN], false));
    Ok(())
}

#[test]
fn much_text_ends_a_row_group_early_and_is_written_whole() -> Result<()> {
    const ROWS: u64 = 200;
    const NAME_BYTES: usize = 300 << 10;
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), WriterOptions::default(), |writer| {
        for mut row in (1..=ROWS).filter_map(range) {
            row.name = format!("{:08}{}", row.n_launches, "n".repeat(NAME_BYTES - 8)).into();
            writer.range(&row);
        }
    })?;
    let metadata = metadata(&folder.path().join("ranges-00000.parquet"));
    let text_bytes = ROWS as usize * NAME_BYTES;
    // Looked at every so many rows, a group has a little more than its bound.
    assert_eq!(metadata.num_row_groups(), text_bytes.div_ceil(ROW_GROUP_TEXT_BYTES), "{text_bytes} bytes");
    assert_eq!(metadata.file_metadata().num_rows(), ROWS as i64);
    Ok(())
}

#[test]
fn statistics_are_of_the_chunk_and_true() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let metadata = written_launches(folder.path())?;
    for column in metadata.row_group(0).columns() {
        let name = column.column_descr().name();
        let statistics = column.statistics().unwrap_or_else(|| panic!("{name} has statistics"));
        assert!(statistics.null_count_opt().is_some(), "{name}");
        assert!(column.bloom_filter_offset().is_none() && column.offset_index_offset().is_none(), "{name}");
        let bytes = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let (min, max) = (bytes(statistics.min_bytes_opt()), bytes(statistics.max_bytes_opt()));
        match name {
            "start_ns" => assert_eq!(min, Some(1_790_000_000_000_000_000i64.to_le_bytes().to_vec())),
            "kernel" => assert_eq!((min, max), (Some(b"add<0>".to_vec()), Some(b"add<2>".to_vec()))),
            "stream" => assert_eq!((min, max), (Some(vec![7, 0, 0, 0]), Some(vec![8, 0, 0, 0]))),
            "cluster_x" => assert_eq!(statistics.null_count_opt(), Some(ROW_GROUP_ROWS as u64 / 2)),
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn a_launch_takes_few_bytes() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let metadata = written_launches(folder.path())?;
    let group = metadata.row_group(0);
    let bytes = group.compressed_size() as f64 / group.num_rows() as f64;
    assert!(bytes < 16.0, "{bytes} bytes a row");
    // With the checksum that lets readers find damaged pages.
    let zstd = |compression| matches!(compression, Compression::ZSTD(_));
    assert!(group.columns().iter().all(|column| zstd(column.compression())));
    Ok(())
}

#[test]
fn every_file_says_what_it_is() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = WriterOptions {
        provenance: vec![("gpu.name".into(), "NVIDIA H200".into())],
        ..WriterOptions::default()
    };
    write(folder.path(), options, |writer| fill(writer, 3))?;
    for table in Table::ALL {
        let metadata = metadata(&folder.path().join(format!("{table}-00000.parquet")));
        let facts = metadata.file_metadata().key_value_metadata().expect("facts");
        let fact = |key: &str| facts.iter().find(|fact| fact.key == key).and_then(|fact| fact.value.clone());
        assert_eq!(fact("cuprof.schema_version"), Some(SCHEMA_VERSION.to_string()));
        assert_eq!(fact("cuprof.table").as_deref(), Some(table.name()));
        assert_eq!(fact("gpu.name").as_deref(), Some("NVIDIA H200"));
    }
    Ok(())
}

#[test]
fn columns_keep_the_rules_of_their_names() {
    for table in Table::ALL {
        for field in table.schema().fields() {
            let what = format!("{table}.{}", field.name());
            let stamp = matches!(field.name().as_str(), "start_ns" | "end_ns");
            assert!(!(stamp && field.is_nullable()), "{what}: a stamp is never null");
            if field.name().ends_with("_ns") {
                assert_eq!(field.data_type(), &DataType::Int64, "{what}");
                assert_eq!(field.metadata().get("unit").map(String::as_str), Some("ns"), "{what}");
            }
            if field.name().ends_with("_bytes") || field.name() == "bytes" {
                assert_eq!(field.metadata().get("unit").map(String::as_str), Some("bytes"), "{what}");
            }
            if field.data_type() == &DataType::Boolean {
                assert!(!field.is_nullable(), "{what}: pandas turns nullable booleans into objects");
            }
            let description = field.metadata().get("description").map_or("", String::as_str);
            assert!(description.ends_with('.') && !description.starts_with(' '), "{what}: {description:?}");
            assert!(
                field.name().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                "{what}"
            );
        }
    }
}

/// The tables as they are published; a change is a change of the schema's version.
#[test]
fn the_columns_are_those_of_version_2() {
    let mut shown = String::new();
    for table in Table::ALL {
        shown += &format!("{table}\n");
        for field in table.schema().fields() {
            let kind = match field.data_type() {
                DataType::Dictionary(_, _) => "Dictionary".to_owned(),
                other => other.to_string(),
            };
            let null = if field.is_nullable() { " null" } else { "" };
            shown += &format!("  {} {kind}{null}\n", field.name());
        }
    }
    assert_eq!(shown, include_str!("schema_v2.txt"), "\n{shown}");
}
