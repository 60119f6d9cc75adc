//! Columns of a batch, by their type.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt16Type, UInt32Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch};
use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind, Result};

/// Stands for null among the numbers that [`Names::codes`] gives.
pub(crate) const NONE: u32 = u32::MAX;

fn typed<'a, T>(batch: &'a RecordBatch, column: usize, found: Option<&'a T>) -> Result<&'a T> {
    found.ok_or_else(|| {
        let schema = batch.schema();
        let name = schema.fields().get(column).map_or("?", |field| field.name());
        // The reader compares the types of files with the schema, so that a scan asks for the wrong one.
        Error::new(ErrorKind::Format, format!("the column {name} has another type than expected"))
    })
}

macro_rules! primitive {
    ($name:ident, $kind:ty) => {
        pub(crate) fn $name(batch: &RecordBatch, column: usize) -> Result<&PrimitiveArray<$kind>> {
            typed(batch, column, batch.column(column).as_primitive_opt())
        }
    };
}

primitive!(float64, Float64Type);
primitive!(int64, Int64Type);
primitive!(uint32, UInt32Type);
primitive!(uint16, UInt16Type);

pub(crate) fn boolean(batch: &RecordBatch, column: usize) -> Result<&BooleanArray> {
    typed(batch, column, batch.column(column).as_boolean_opt())
}

/// The value of a row, or none for null.
pub(crate) fn value<T: arrow_array::ArrowPrimitiveType>(
    column: &PrimitiveArray<T>,
    row: usize,
) -> Option<T::Native> {
    column.is_valid(row).then(|| column.value(row))
}

/// The duration of a row; none where it is null, or negative, as nothing lasts.
pub(crate) fn duration_ns(column: &PrimitiveArray<arrow_array::types::Int64Type>, row: usize) -> Option<i64> {
    value(column, row).filter(|ns| *ns >= 0)
}

/// Distinct texts of a dictionary-encoded column, each with a number.
#[derive(Default)]
pub(crate) struct Names {
    numbers: FxHashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
    /// The dictionary of the last batch, which the next one mostly shares, and the number of each of its words.
    /// Holding it keeps its address from being reused.
    last: Option<(ArrayRef, Vec<u32>)>,
}

impl Names {
    /// The number of a text.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        // CAST: distinct texts that fit in memory are fewer than 2^32
        let number = self.texts.len() as u32;
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// The texts, by their numbers.
    pub fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    /// The number of each row's text; [`NONE`] for null.
    pub fn codes(&mut self, batch: &RecordBatch, column: usize, codes: &mut Vec<u32>) -> Result<()> {
        codes.clear();
        let column_array = batch.column(column);
        if let Some(words) = column_array.as_string_opt::<i32>() {
            codes.extend(words.iter().map(|word| word.map_or(NONE, |word| self.number(word))));
            return Ok(());
        }
        let dictionary = typed(batch, column, column_array.as_dictionary_opt::<Int32Type>())?;
        let is_last = |(last, _): &(ArrayRef, _)| same_words(last, dictionary.values());
        let numbers = match self.last.take().filter(is_last) {
            Some(last) => last,
            None => {
                let words = typed(batch, column, dictionary.values().as_string_opt::<i32>())?;
                let numbers = words.iter().map(|word| word.map_or(NONE, |word| self.number(word))).collect();
                (Arc::clone(dictionary.values()), numbers)
            }
        };
        let number = |key: i32| usize::try_from(key).ok().and_then(|key| numbers.1.get(key).copied());
        let keys = dictionary.keys();
        codes.extend(keys.iter().map(|key| key.and_then(number).unwrap_or(NONE)));
        self.last = Some(numbers);
        Ok(())
    }
}

/// Texts of a column, row by row; each distinct one is kept once.
#[derive(Default)]
pub(crate) struct Texts {
    names: Names,
    codes: Vec<u32>,
}

impl Texts {
    /// The text of each row; none for null.
    pub fn of(&mut self, batch: &RecordBatch, column: usize) -> Result<Vec<Option<Arc<str>>>> {
        self.names.codes(batch, column, &mut self.codes)?;
        Ok(self.codes.iter().map(|code| self.names.texts().get(*code as usize).cloned()).collect())
    }
}

/// Whether two dictionaries are the same memory.
fn same_words(a: &ArrayRef, b: &ArrayRef) -> bool {
    let (Some(a), Some(b)) = (a.as_string_opt::<i32>(), b.as_string_opt::<i32>()) else { return false };
    a.len() == b.len() && a.value_offsets().as_ptr() == b.value_offsets().as_ptr()
}
