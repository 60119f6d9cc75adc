//! A table of a dataset in memory, read cell by cell.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use cuprof::{Dataset, Table};

/// One cell, whatever the file's own type is.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Flag(bool),
}

/// Some columns of a table.
pub struct Frame {
    table: Table,
    columns: BTreeMap<&'static str, Vec<Cell>>,
    len: usize,
}

/// One row of a frame.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    frame: &'a Frame,
    index: usize,
}

impl Frame {
    /// Reads these columns of a table.
    pub fn read(
        dataset: &Dataset,
        table: Table,
        names: &[&'static str],
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut frame = Self { table, columns: BTreeMap::new(), len: 0 };
        for batch in dataset.batches(table) {
            let batch: RecordBatch = batch?;
            frame.len += batch.num_rows();
            for name in names {
                let array =
                    batch.column_by_name(name).ok_or_else(|| format!("{table:?} has no column {name}"))?;
                frame.columns.entry(name).or_default().extend(cells(array.as_ref()));
            }
        }
        Ok(frame)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The rows, in the file's order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len).map(|index| Row { frame: self, index })
    }
}

impl<'a> Row<'a> {
    fn cell(self, name: &str) -> &'a Cell {
        let column = self.frame.columns.get(name);
        column
            .unwrap_or_else(|| panic!("column {name} of {:?} was not read", self.frame.table))
            .get(self.index)
            .unwrap()
    }

    /// These cells in words, to compare rows by.
    #[allow(dead_code, reason = "not every program with this module compares whole rows")]
    pub fn cells(self, names: &[&str]) -> String {
        format!("{:?}", names.iter().map(|name| self.cell(name)).collect::<Vec<_>>())
    }

    /// A number, or none where it is null.
    pub fn int(self, name: &str) -> Option<i64> {
        match self.cell(name) {
            Cell::Int(value) => Some(*value),
            Cell::Null => None,
            other => panic!("{name} is {other:?}, not a number"),
        }
    }

    /// A number that must not be null.
    pub fn number(self, name: &str) -> i64 {
        self.int(name).unwrap_or_else(|| panic!("{name} is null"))
    }

    /// A number with a fraction, or none where it is null.
    #[allow(dead_code, reason = "not every program with this module reads such columns")]
    pub fn real(self, name: &str) -> Option<f64> {
        match self.cell(name) {
            Cell::Real(value) => Some(*value),
            Cell::Null => None,
            other => panic!("{name} is {other:?}, not a number with a fraction"),
        }
    }

    /// A text, or none where it is null.
    pub fn text(self, name: &str) -> Option<&'a str> {
        match self.cell(name) {
            Cell::Text(value) => Some(value),
            Cell::Null => None,
            other => panic!("{name} is {other:?}, not a text"),
        }
    }

    /// Whether it holds; null does not.
    pub fn flag(self, name: &str) -> bool {
        *self.cell(name) == Cell::Flag(true)
    }
}

fn cells(array: &dyn Array) -> Vec<Cell> {
    macro_rules! ints {
        ($type:ty) => {
            array
                .as_primitive::<$type>()
                .iter()
                .map(|value| value.map_or(Cell::Null, |v| Cell::Int(v as i64)))
                .collect()
        };
    }
    fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Vec<Cell> {
        values.map(|value| value.map_or(Cell::Null, |text| Cell::Text(text.to_owned()))).collect()
    }
    match array.data_type() {
        DataType::Int8 => ints!(Int8Type),
        DataType::Int16 => ints!(Int16Type),
        DataType::Int32 => ints!(Int32Type),
        DataType::Int64 => ints!(Int64Type),
        DataType::UInt8 => ints!(UInt8Type),
        DataType::UInt16 => ints!(UInt16Type),
        DataType::UInt32 => ints!(UInt32Type),
        DataType::UInt64 => ints!(UInt64Type),
        DataType::Float64 => array
            .as_primitive::<Float64Type>()
            .iter()
            .map(|value| value.map_or(Cell::Null, Cell::Real))
            .collect(),
        DataType::Utf8 => texts(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>().iter()),
        DataType::Utf8View => texts(array.as_string_view().iter()),
        DataType::Boolean => {
            array.as_boolean().iter().map(|value| value.map_or(Cell::Null, Cell::Flag)).collect()
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let words = cells(dictionary.values().as_ref());
            let keys = if words.is_empty() { Vec::new() } else { dictionary.normalized_keys() };
            (0..array.len())
                .map(|index| if array.is_null(index) { Cell::Null } else { words[keys[index]].clone() })
                .collect()
        }
        other => panic!("a column of type {other} is not read by these tests"),
    }
}
