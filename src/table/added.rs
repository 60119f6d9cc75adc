//! Columns that a dataset adds to a table: the parameters of a measurement, whose names and types only it knows.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use parquet::errors::Result;

use super::batch::Drain;
use super::column::{Coded, Column, Flags, Nullable, Reals, Words};
use super::schema::{Table, field};

/// What a row has in an added column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Int(i64),
    Real(f64),
    Flag(bool),
    Text(Arc<str>),
}

/// The type of an added column. A cell of another type is null, but for whole numbers among real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellType {
    Int,
    Real,
    Flag,
    Text,
}

/// A column that is added.
#[derive(Clone, Debug)]
pub(crate) struct AddedColumn {
    pub name: String,
    pub kind: CellType,
    pub description: String,
}

impl Table {
    /// Whether a column is one that a dataset may add to this table.
    pub(super) fn may_add(self, field: &Field) -> bool {
        let is_a_kind = match field.data_type() {
            DataType::Int64 | DataType::Float64 | DataType::Boolean => true,
            DataType::Dictionary(_, text) => **text == DataType::Utf8,
            _ => false,
        };
        is_a_kind
            && match self {
                Self::Samples | Self::Aggregates => field.name().starts_with(PARAMETER),
                Self::Compat => true,
                _ => false,
            }
    }
}

/// How the names of the columns of parameters begin.
pub(crate) const PARAMETER: &str = "p_";

/// The added columns of a batch.
#[derive(Default)]
pub(super) struct Added {
    columns: Vec<AddedColumn>,
    cells: Vec<Cells>,
}

enum Cells {
    Int(Nullable<Coded<i64>>),
    Real(Nullable<Reals>),
    Flag(Nullable<Flags>),
    Text(Nullable<Words<Arc<str>>>),
}

impl Added {
    pub fn new(columns: &[AddedColumn]) -> Self {
        let cells = columns.iter().map(|column| match column.kind {
            CellType::Int => Cells::Int(Nullable::default()),
            CellType::Real => Cells::Real(Nullable::default()),
            CellType::Flag => Cells::Flag(Nullable::default()),
            CellType::Text => Cells::Text(Nullable::default()),
        });
        Self { cells: cells.collect(), columns: columns.to_vec() }
    }

    pub fn fields(&self) -> Vec<Field> {
        let fields = self.columns.iter().zip(&self.cells).map(|(column, cells)| {
            let AddedColumn { name, description, .. } = column;
            match cells {
                Cells::Int(_) => field::<Nullable<Coded<i64>>>(name, None, description),
                Cells::Real(_) => field::<Nullable<Reals>>(name, None, description),
                Cells::Flag(_) => field::<Nullable<Flags>>(name, None, description),
                Cells::Text(_) => field::<Nullable<Words<Arc<str>>>>(name, None, description),
            }
        });
        fields.collect()
    }

    /// Adds a row; cells that it lacks at its end are null.
    pub fn push(&mut self, row: &[Option<Cell>]) {
        for (at, cells) in self.cells.iter_mut().enumerate() {
            let cell = row.get(at).and_then(Option::as_ref);
            match (cells, cell) {
                (Cells::Int(cells), Some(Cell::Int(value))) => cells.push(Some(*value)),
                (Cells::Int(cells), _) => cells.push(None),
                (Cells::Real(cells), Some(Cell::Real(value))) => {
                    cells.push(value.is_finite().then_some(*value))
                }
                // CAST: above 2^53 the last digits are lost, as in any column of real numbers
                (Cells::Real(cells), Some(Cell::Int(value))) => cells.push(Some(*value as f64)),
                (Cells::Real(cells), _) => cells.push(None),
                (Cells::Flag(cells), Some(Cell::Flag(value))) => cells.push(Some(*value)),
                (Cells::Flag(cells), _) => cells.push(None),
                (Cells::Text(cells), Some(Cell::Text(text))) => cells.push(Some(text)),
                (Cells::Text(cells), _) => cells.push(None),
            }
        }
    }

    pub fn text_bytes(&self) -> usize {
        let bytes = self.cells.iter().map(|cells| match cells {
            Cells::Text(cells) => cells.text_bytes(),
            Cells::Int(_) | Cells::Real(_) | Cells::Flag(_) => 0,
        });
        bytes.sum()
    }

    pub fn drain(
        &mut self,
        rows: usize,
        write: &mut dyn FnMut(usize, &mut dyn Drain) -> Result<()>,
    ) -> Result<()> {
        self.cells.iter_mut().try_for_each(|cells| match cells {
            Cells::Int(cells) => write(rows, cells),
            Cells::Real(cells) => write(rows, cells),
            Cells::Flag(cells) => write(rows, cells),
            Cells::Text(cells) => write(rows, cells),
        })
    }
}
