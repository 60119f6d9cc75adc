//! A table's rows between two row groups, column by column.

use arrow_schema::Field;
use parquet::errors::Result;

use super::added::AddedColumn;
use super::column::Column;
use super::encode::chunk::Chunk;
use super::schema::Table;

/// The rows of one table that are not written yet.
pub(super) trait Batch: Default {
    /// A row as the pipeline hands it over.
    type Row;
    /// The table that the rows belong to.
    const TABLE: Table;

    /// The columns in their order, without those that a dataset adds.
    fn columns() -> Vec<Field>;

    /// Adds columns of this dataset's own, before the first row.
    fn add(&mut self, _columns: &[AddedColumn]) {}

    /// The columns that were added; they come last.
    fn added(&self) -> Vec<Field> {
        Vec::new()
    }

    /// Adds a row.
    fn push(&mut self, row: &Self::Row);

    /// How many rows there are.
    fn rows(&self) -> usize;

    /// Bytes of text in the rows, which their number alone does not bound.
    fn text_bytes(&self) -> usize;

    /// Hands every column to `write`, in order, and forgets the rows. Stops at the first error.
    fn drain(&mut self, write: &mut dyn FnMut(usize, &mut dyn Drain) -> Result<()>) -> Result<()>;
}

/// A column that can be written without knowing what a row gives for it.
pub(super) trait Drain {
    fn drain(&mut self, chunk: &mut Chunk);
}

impl<C: Column> Drain for C {
    fn drain(&mut self, chunk: &mut Chunk) {
        Column::drain(self, chunk);
    }
}

/// Defines a table: for each column its comment (which becomes the description in the files), name, kind, unit,
/// and where a row has it. After `with`: the columns that a dataset adds to this table, and where a row has their cells.
macro_rules! table {
    (
        $(#[$about:meta])*
        $name:ident($row:ident: &$row_type:ty) {
            $( $(#[doc = $doc:literal])+ $column:ident: $kind:ty $([$unit:literal])? = $value:expr; )*
        } $(with $added:ident = $cells:expr)?
    ) => {
        $(#[$about])*
        #[derive(Default)]
        pub(crate) struct $name {
            rows: usize,
            $( $column: $kind, )*
            $( $added: $crate::table::added::Added, )?
        }

        impl $crate::table::batch::Batch for $name {
            type Row = $row_type;
            const TABLE: $crate::table::schema::Table = $crate::table::schema::Table::$name;

            fn columns() -> Vec<arrow_schema::Field> {
                vec![$({
                    let unit: &[&str] = &[$($unit)?];
                    $crate::table::schema::field::<$kind>(
                        stringify!($column), unit.first().copied(), concat!($($doc),+),
                    )
                }),*]
            }

            $(
                fn add(&mut self, columns: &[$crate::table::added::AddedColumn]) {
                    self.$added = $crate::table::added::Added::new(columns);
                }

                fn added(&self) -> Vec<arrow_schema::Field> {
                    self.$added.fields()
                }
            )?

            fn push(&mut self, $row: &$row_type) {
                self.rows += 1;
                $( $crate::table::column::Column::push(&mut self.$column, $value); )*
                $( self.$added.push($cells); )?
            }

            fn rows(&self) -> usize {
                self.rows
            }

            fn text_bytes(&self) -> usize {
                0 $( + $crate::table::column::Column::text_bytes(&self.$column) )* $( + self.$added.text_bytes() )?
            }

            fn drain(
                &mut self,
                write: &mut dyn FnMut(usize, &mut dyn $crate::table::batch::Drain) -> parquet::errors::Result<()>,
            ) -> parquet::errors::Result<()> {
                let rows = std::mem::take(&mut self.rows);
                $( write(rows, &mut self.$column)?; )*
                $( self.$added.drain(rows, write)?; )?
                Ok(())
            }
        }
    };
}
pub(super) use table;
