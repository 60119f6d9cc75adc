//! Columns whose names and types only a measurement knows: its parameters, and what comes with them in other tables.

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use super::text::{Table, real};
use super::value::Value;
use crate::error::Result;
use crate::table::added::{AddedColumn, Cell, CellType};
use crate::table::columns::{Texts, boolean, float64, int64};

/// Named columns, and rows with as many values. A column has one type: that of its values where they have one in common
/// (whole numbers among real ones are real), and text where they have not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Columns {
    names: Vec<String>,
    kinds: Vec<CellType>,
    rows: Vec<Vec<Option<Value>>>,
}

impl Columns {
    /// Of a column without any value the type is the one given for it, if any, else real numbers.
    pub fn new(heading: Vec<(String, Option<CellType>)>, mut rows: Vec<Vec<Option<Value>>>) -> Self {
        let kinds = heading.iter().enumerate().map(|(at, (_, given))| {
            let values = rows.iter().filter_map(|row| row.get(at)?.as_ref());
            values.map(kind_of).reduce(common).or(*given).unwrap_or(CellType::Real)
        });
        let kinds: Vec<CellType> = kinds.collect();
        for row in &mut rows {
            for (value, kind) in row.iter_mut().zip(&kinds) {
                if let (Some(Value::Int(number)), CellType::Real) = (&*value, kind) {
                    *value = Some(Value::Real(*number as f64)); // CAST: above 2^53 the last digits are lost
                }
            }
        }
        Self { kinds, names: heading.into_iter().map(|(name, _)| name).collect(), rows }
    }

    /// The columns of batches that begin with this, which is left off; all have the same columns.
    pub fn read(batches: &[RecordBatch], prefix: &str) -> Result<Self> {
        let Some(first) = batches.first() else { return Ok(Self::default()) };
        let (schema, mut columns) = (first.schema(), Self::default());
        columns.rows = vec![Vec::new(); batches.iter().map(RecordBatch::num_rows).sum()];
        for (at, field) in schema.fields().iter().enumerate() {
            let Some(name) = field.name().strip_prefix(prefix) else { continue };
            let kind = match field.data_type() {
                DataType::Int64 => CellType::Int,
                DataType::Float64 => CellType::Real,
                DataType::Boolean => CellType::Flag,
                _ => CellType::Text,
            };
            let mut values = Vec::new();
            let mut texts = Texts::default();
            for batch in batches {
                match kind {
                    CellType::Int => values.extend(int64(batch, at)?.iter().map(|cell| cell.map(Value::Int))),
                    CellType::Real => {
                        values.extend(float64(batch, at)?.iter().map(|cell| cell.map(Value::Real)))
                    }
                    CellType::Flag => {
                        values.extend(boolean(batch, at)?.iter().map(|cell| cell.map(Value::Flag)))
                    }
                    CellType::Text => {
                        let texts = texts.of(batch, at)?.into_iter();
                        values.extend(texts.map(|text| text.map(|text| Value::Text(text.to_string()))));
                    }
                }
            }
            columns.rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
            columns.names.push(name.to_owned());
            columns.kinds.push(kind);
        }
        Ok(columns)
    }

    /// What the columns are called.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The rows' values.
    pub fn rows(&self) -> &[Vec<Option<Value>>] {
        &self.rows
    }

    /// The parameters of configurations: a row for each of these.
    pub fn of_parameters(names: &[String], configs: &[Vec<Option<Value>>]) -> Self {
        Self::new(names.iter().map(|name| (name.clone(), None)).collect(), configs.to_vec())
    }

    /// As columns of a dataset, with this in front of their names.
    pub fn added(&self, prefix: &str, description: impl Fn(&str) -> String) -> Vec<AddedColumn> {
        let columns = self.names.iter().zip(&self.kinds).map(|(name, kind)| AddedColumn {
            name: format!("{prefix}{name}"),
            kind: *kind,
            description: description(name),
        });
        columns.collect()
    }

    /// The rows as a dataset has them.
    pub fn cells(&self) -> impl Iterator<Item = Vec<Option<Cell>>> {
        self.rows.iter().map(|row| {
            let cells = row.iter().zip(&self.kinds).map(|(value, kind)| Some(cell(value.as_ref()?, *kind)));
            cells.collect()
        })
    }

    /// As text, numbers in full, null as nothing.
    pub fn texts(&self) -> Table {
        let text = |value: &Option<Value>| value.as_ref().map_or(String::new(), python);
        let rows = self.rows.iter().map(|row| row.iter().map(text).collect());
        Table { heading: self.names.clone(), rows: rows.collect(), words: 0 }
    }
}

fn kind_of(value: &Value) -> CellType {
    match value {
        Value::Int(_) => CellType::Int,
        Value::Real(_) => CellType::Real,
        Value::Flag(_) => CellType::Flag,
        Value::Text(_) => CellType::Text,
    }
}

fn common(a: CellType, b: CellType) -> CellType {
    match (a, b) {
        _ if a == b => a,
        (CellType::Int, CellType::Real) | (CellType::Real, CellType::Int) => CellType::Real,
        _ => CellType::Text,
    }
}

fn cell(value: &Value, kind: CellType) -> Cell {
    match value {
        _ if kind == CellType::Text => Cell::Text(python(value).into()),
        Value::Int(value) => Cell::Int(*value),
        Value::Real(value) => Cell::Real(*value),
        Value::Flag(value) => Cell::Flag(*value),
        Value::Text(text) => Cell::Text(text.as_str().into()),
    }
}

/// A value as Python writes it.
pub(super) fn python(value: &Value) -> String {
    match value {
        Value::Flag(true) => "True".to_owned(),
        Value::Flag(false) => "False".to_owned(),
        Value::Real(value) => real(Some(*value)),
        Value::Int(_) | Value::Text(_) => value.to_string(),
    }
}
