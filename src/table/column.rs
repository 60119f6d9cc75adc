//! The columns of a batch: plain vectors that are filled row by row and written once per row group.
//!
//! Each kind of column fixes its Arrow type and how it is laid out in the file, so that a table's definition
//! names nothing but kinds. Vectors keep their memory from group to group.

use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use arrow_schema::DataType;
use parquet::basic::Encoding;
use parquet::data_type::ByteArray;
use parquet::file::statistics::Statistics;
use rustc_hash::FxHashMap;

use super::encode::bits;
use super::encode::chunk::Chunk;
use super::encode::delta::put_delta;

/// One column of a batch.
pub(super) trait Column: Default {
    /// What a row gives for this column.
    type Item<'a>;
    /// Whether the column may hold nulls.
    const NULLABLE: bool = false;

    /// The column's type for Arrow.
    fn arrow_type() -> DataType;

    /// Adds the value of the next row.
    fn push(&mut self, value: Self::Item<'_>);

    /// Encodes the rows into a chunk and forgets them.
    fn drain(&mut self, chunk: &mut Chunk);

    /// Bytes of text held, which rows alone do not bound.
    fn text_bytes(&self) -> usize {
        0
    }
}

/// An integer type of a column.
pub(crate) trait Int: Copy + Default + Ord + Hash {
    /// The bits of the Parquet type that stores it.
    const MASK: u64;
    const ARROW: DataType;

    /// The value as the Parquet type holds it: same bits, widened with the sign.
    fn physical(self) -> i64;

    /// The difference, modulo the width of the Parquet type.
    fn minus(self, other: Self) -> i64;

    /// Appends the plain form.
    fn put(self, out: &mut Vec<u8>);

    /// The chunk's statistics, ordered as the type is.
    fn statistics(range: Option<(Self, Self)>, nulls: u64) -> Statistics;
}

macro_rules! int {
    ($($rust:ty, $arrow:ident in $physical:ty, $mask:expr, $statistics:ident;)*) => { $(
        impl Int for $rust {
            const MASK: u64 = $mask;
            const ARROW: DataType = DataType::$arrow;

            fn physical(self) -> i64 {
                i64::from(self as $physical) // CAST: keeps the bits, as Parquet stores unsigned types
            }

            fn minus(self, other: Self) -> i64 {
                i64::from((self as $physical).wrapping_sub(other as $physical)) // CAST: as above
            }

            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(self as $physical).to_le_bytes()); // CAST: as above
            }

            fn statistics(range: Option<(Self, Self)>, nulls: u64) -> Statistics {
                let (min, max) = range.unzip();
                let stored = |value: Self| value as $physical; // CAST: as above
                Statistics::$statistics(min.map(stored), max.map(stored), None, Some(nulls), false)
            }
        }
    )* };
}

int! {
    u16, UInt16 in i32, u32::MAX as u64, int32;
    u32, UInt32 in i32, u32::MAX as u64, int32;
    i64, Int64 in i64, u64::MAX, int64;
    u64, UInt64 in i64, u64::MAX, int64;
}

/// Integers that grow or wander: stamps, durations, ids. Stored as differences.
#[derive(Default)]
pub(super) struct Delta<T>(Vec<T>);

impl<T: Int> Column for Delta<T> {
    type Item<'a> = T;

    fn arrow_type() -> DataType {
        T::ARROW
    }

    fn push(&mut self, value: T) {
        self.0.push(value);
    }

    fn drain(&mut self, chunk: &mut Chunk) {
        chunk.encoding = Encoding::DELTA_BINARY_PACKED;
        put_delta(&mut chunk.data, &self.0);
        chunk.statistics = Some(T::statistics(range(&self.0), chunk.nulls()));
        self.0.clear();
    }
}

fn range<T: Copy + Ord>(values: &[T]) -> Option<(T, T)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(min, max), value| (min.min(*value), max.max(*value))))
}

/// Integers that repeat: devices, streams, grid sizes. Stored as keys of a dictionary.
///
/// More distinct values than rows/2 would be better off as they are; that is accepted, since it costs at most
/// a few bytes a row and no table is expected to do so.
#[derive(Default)]
pub(super) struct Coded<T> {
    values: Vec<T>,
    keys: FxHashMap<T, u32>,
}

impl<T: Int> Column for Coded<T> {
    type Item<'a> = T;

    fn arrow_type() -> DataType {
        T::ARROW
    }

    fn push(&mut self, value: T) {
        self.values.push(value);
    }

    fn drain(&mut self, chunk: &mut Chunk) {
        let (keys, dictionary) = chunk.dictionary();
        // Most of these columns are constant, which is much faster to find out than to code.
        let rows =
            if all_equal(&self.values) { &self.values[..self.values.len().min(1)] } else { &self.values };
        let mut last = None;
        for &value in rows {
            let key = match last {
                Some((same, key)) if same == value => key,
                _ => *self.keys.entry(value).or_insert_with(|| {
                    value.put(&mut dictionary.bytes);
                    dictionary.next_key()
                }),
            };
            last = Some((value, key));
            keys.push(key);
        }
        chunk.put_keys(self.values.len());
        let range = self.keys.keys().min().copied().zip(self.keys.keys().max().copied());
        chunk.statistics = Some(T::statistics(range, chunk.nulls()));
        self.values.clear();
        self.keys.clear();
    }
}

fn all_equal<T: Copy + PartialEq>(values: &[T]) -> bool {
    let Some(&first) = values.first() else { return true };
    // In blocks without an early end, which the compiler turns into vector instructions.
    values.chunks(1_024).all(|block| block.iter().fold(true, |equal, value| equal & (*value == first)))
}

/// A text whose address identifies it for as long as it is held.
pub(super) trait Word: Clone + Deref<Target = str> + Eq + Hash {}

impl Word for Arc<str> {}
impl Word for &'static str {}

/// Names, paths, kinds and reasons: Arrow dictionary columns.
///
/// A row costs a comparison of addresses; texts are only compared when an address is new. Equal texts at
/// different addresses share an entry, because pandas refuses a dictionary with duplicates.
pub(super) struct Words<W> {
    keys: Vec<u32>,
    /// The last address of each slot and its key: nearly every row ends here. On the heap, since a dataset's writer, which
    /// has one for each of these columns, is passed by value.
    recent: Box<[(Address, u32); RECENT]>,
    by_address: FxHashMap<Address, u32>,
    by_text: FxHashMap<W, u32>,
    /// Keeps every text that `by_address` knows, so that no address is reused.
    held: Vec<W>,
    text_bytes: usize,
}

/// Where a text lies, and its length, because static texts may overlap.
type Address = (usize, usize);

/// Slots of recent addresses: the kernels of a loop's body fit.
const RECENT: usize = 64;

/// An address that no text has.
const NOWHERE: (Address, u32) = ((0, 0), 0);

impl<W> Default for Words<W> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            recent: Box::new([NOWHERE; RECENT]),
            by_address: FxHashMap::default(),
            by_text: FxHashMap::default(),
            held: Vec::new(),
            text_bytes: 0,
        }
    }
}

impl<W: Word> Words<W> {
    #[cold]
    fn hold(&mut self, address: Address, word: &W) -> u32 {
        let next = self.by_text.len() as u32; // CAST: at most one entry a row
        let key = *self.by_text.entry(word.clone()).or_insert_with(|| {
            self.text_bytes += word.len();
            next
        });
        self.by_address.insert(address, key);
        self.held.push(word.clone());
        key
    }
}

impl<W: Word + 'static> Column for Words<W> {
    type Item<'a> = &'a W;

    fn arrow_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }

    fn push(&mut self, word: &W) {
        let address = (word.as_ptr() as usize, word.len());
        // Allocations lie 16 bytes apart at least, so that the lowest bits tell nothing.
        let slot = ((address.0 >> 4) ^ (address.0 >> 10)) % RECENT;
        if self.recent[slot].0 != address {
            let key = self.by_address.get(&address).copied();
            self.recent[slot] = (address, key.unwrap_or_else(|| self.hold(address, word)));
        }
        self.keys.push(self.recent[slot].1);
    }

    fn drain(&mut self, chunk: &mut Chunk) {
        let mut words: Vec<(W, u32)> = self.by_text.drain().collect();
        words.sort_unstable_by_key(|(_, key)| *key);
        let (keys, dictionary) = chunk.dictionary();
        std::mem::swap(keys, &mut self.keys);
        let rows = keys.len();
        for (word, _) in &words {
            put_text(&mut dictionary.bytes, word);
            dictionary.next_key();
        }
        chunk.put_keys(rows);
        let texts = || words.iter().map(|(word, _)| &**word);
        chunk.statistics = Some(text_statistics(texts().min(), texts().max(), chunk.nulls()));
        *self.recent = [NOWHERE; RECENT];
        self.by_address.clear();
        self.held.clear();
        self.text_bytes = 0;
    }

    fn text_bytes(&self) -> usize {
        self.text_bytes
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes()); // CAST: a row group's text is bounded far below
    out.extend_from_slice(text.as_bytes());
}

/// Longer texts are left out of the statistics: a mangled name is up to 100 kB, and no query prunes by it.
const STATISTICS_TEXT_BYTES: usize = 64;

fn text_statistics(min: Option<&str>, max: Option<&str>, nulls: u64) -> Statistics {
    let short = |text: &&str| text.len() <= STATISTICS_TEXT_BYTES;
    let range = min.filter(short).zip(max.filter(short));
    let (min, max) = range.map(|(min, max)| (ByteArray::from(min), ByteArray::from(max))).unzip();
    Statistics::byte_array(min, max, None, Some(nulls), false)
}

/// Texts that do not repeat: payloads, arguments, facts.
#[derive(Default)]
pub(super) struct Texts(Vec<u8>);

impl Column for Texts {
    type Item<'a> = &'a str;

    fn arrow_type() -> DataType {
        DataType::Utf8
    }

    fn push(&mut self, text: &str) {
        put_text(&mut self.0, text);
    }

    fn drain(&mut self, chunk: &mut Chunk) {
        chunk.encoding = Encoding::PLAIN;
        chunk.data.append(&mut self.0);
        chunk.statistics = Some(text_statistics(None, None, chunk.nulls()));
    }

    fn text_bytes(&self) -> usize {
        self.0.len()
    }
}

/// Yes or no.
#[derive(Default)]
pub(super) struct Flags(Vec<bool>);

impl Column for Flags {
    type Item<'a> = bool;

    fn arrow_type() -> DataType {
        DataType::Boolean
    }

    fn push(&mut self, value: bool) {
        self.0.push(value);
    }

    fn drain(&mut self, chunk: &mut Chunk) {
        chunk.encoding = Encoding::PLAIN;
        bits::pack(&mut chunk.data, self.0.iter().map(|value| u64::from(*value)), 1);
        let (min, max) = range(&self.0).unzip();
        chunk.statistics = Some(Statistics::boolean(min, max, None, Some(chunk.nulls()), false));
        self.0.clear();
    }
}

/// Measured ratios; never NaN or infinite.
#[derive(Default)]
pub(super) struct Reals(Vec<u8>);

impl Column for Reals {
    type Item<'a> = f64;

    fn arrow_type() -> DataType {
        DataType::Float64
    }

    fn push(&mut self, value: f64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn drain(&mut self, chunk: &mut Chunk) {
        chunk.encoding = Encoding::PLAIN;
        chunk.data.append(&mut self.0);
        chunk.statistics = Some(Statistics::double(None, None, None, Some(chunk.nulls()), false));
    }
}

/// A column that may be empty in a row. Only present values are kept; a column of nothing but nulls, or without
/// any, costs a counter.
#[derive(Default)]
pub(super) struct Nullable<C> {
    values: C,
    present: Presence,
}

impl<C: Column> Column for Nullable<C> {
    type Item<'a> = Option<C::Item<'a>>;
    const NULLABLE: bool = true;

    fn arrow_type() -> DataType {
        C::arrow_type()
    }

    #[inline]
    fn push(&mut self, value: Option<C::Item<'_>>) {
        self.present.push(value.is_some());
        if let Some(value) = value {
            self.values.push(value);
        }
    }

    fn drain(&mut self, chunk: &mut Chunk) {
        self.present.drain(chunk);
        self.values.drain(chunk);
    }

    fn text_bytes(&self) -> usize {
        self.values.text_bytes()
    }
}

/// Which rows hold a value.
#[derive(Default)]
struct Presence {
    /// How many rows were alike, from the first on, and what they were.
    same_rows: usize,
    same: bool,
    /// A definition level for each row, once they are not all alike.
    levels: Vec<u32>,
}

impl Presence {
    #[inline]
    fn push(&mut self, present: bool) {
        if self.levels.is_empty() && (self.same == present || self.same_rows == 0) {
            self.same = present;
            self.same_rows += 1;
        } else {
            self.push_mixed(present);
        }
    }

    fn push_mixed(&mut self, present: bool) {
        if self.levels.is_empty() {
            self.levels.resize(self.same_rows, u32::from(self.same));
        }
        self.levels.push(u32::from(present));
    }

    fn drain(&mut self, chunk: &mut Chunk) {
        if self.levels.is_empty() {
            chunk.put_same_levels(self.same, self.same_rows);
        } else {
            chunk.put_levels(&self.levels);
        }
        self.same_rows = 0;
        self.levels.clear();
    }
}
