//! One part: a Parquet file under a temporary name, until it is whole.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Field, Schema};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor};

use super::batch::Batch;
use super::encode::chunk::Chunk;
use super::files::{PartFiles, part_path, temporary_path};
use super::schema::{SCHEMA_VERSION, SCHEMA_VERSION_KEY, TABLE_KEY, Table};

/// What all parts of a table have in common.
pub(super) struct Layout {
    table: Table,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
}

impl Layout {
    /// The layout of a table with these columns added, and the provenance that each of its files carries.
    pub fn new(table: Table, added: Vec<Field>, provenance: &[(String, String)]) -> Result<Self> {
        let own = [(SCHEMA_VERSION_KEY, SCHEMA_VERSION.to_string()), (TABLE_KEY, table.name().to_owned())];
        let facts: HashMap<String, String> = own
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .chain(provenance.iter().cloned())
            .collect();
        let metadata = facts.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("cuprof version {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(metadata))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .build();
        // Tells readers of Arrow the exact types and the fields' metadata. pyarrow then takes the file's own
        // metadata from there too.
        let own = table.schema();
        let columns = own.fields().iter().cloned().chain(added.into_iter().map(Arc::new));
        let arrow = Schema::new_with_metadata(columns.collect::<Vec<_>>(), facts);
        add_encoded_arrow_schema_to_metadata(&arrow, &mut properties);
        let schema: SchemaDescriptor = ArrowSchemaConverter::new().convert(&arrow)?;
        Ok(Self { table, schema: Arc::new(schema), properties: Arc::new(properties) })
    }
}

/// A part that is being written.
pub(super) struct Part {
    file: SerializedFileWriter<Box<dyn Write + Send>>,
    temporary: PathBuf,
    path: PathBuf,
    schema: SchemaDescPtr,
    rows: u64,
}

impl Part {
    pub fn create(files: &mut dyn PartFiles, folder: &Path, layout: &Layout, number: u32) -> Result<Self> {
        let temporary = temporary_path(folder, layout.table, number);
        let file = files.create(&temporary)?;
        let file =
            SerializedFileWriter::new(file, layout.schema.root_schema_ptr(), layout.properties.clone())
                .inspect_err(|_| drop(files.discard(&temporary)))?;
        let path = part_path(folder, layout.table, number);
        Ok(Self { file, temporary, path, schema: layout.schema.clone(), rows: 0 })
    }

    /// The rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the rows of a batch as one row group, and empties the batch.
    pub fn write_group(&mut self, batch: &mut impl Batch, chunk: &mut Chunk) -> Result<()> {
        let rows = batch.rows() as u64;
        let mut group = self.file.next_row_group()?;
        let mut columns = self.schema.columns().iter();
        batch.drain(&mut |rows, column| {
            let Some(descriptor) = columns.next() else { return Ok(()) };
            chunk.begin(rows);
            column.drain(chunk);
            let (bytes, close) = chunk.finish(descriptor.clone())?;
            group.append_column(&bytes, close)
        })?;
        group.close()?;
        self.rows += rows;
        Ok(())
    }

    /// Writes the footer and gives the part its name; returns its size in bytes.
    pub fn finish(mut self, files: &mut dyn PartFiles) -> Result<u64> {
        let finished = self.file.finish().and_then(|_| {
            let bytes = self.file.bytes_written() as u64;
            self.file.inner_mut().flush()?;
            files.publish(&self.temporary, &self.path)?;
            Ok(bytes)
        });
        if finished.is_err() {
            self.discard(files);
        }
        finished
    }

    /// Gives the part up. Failing to remove its file leaves a name that readers ignore.
    pub fn discard(self, files: &mut dyn PartFiles) {
        drop(self.file);
        let _ = files.discard(&self.temporary);
    }
}
