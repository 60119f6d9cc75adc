//! One column chunk: an optional dictionary page and one data page, compressed and with a checksum.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::bits;

/// The level of compression. Level 3 takes 3 % off the files and costs some 60 % more time in all
/// (`benches/results/table_write.txt`).
pub(crate) const ZSTD_LEVEL: i32 = 1;

/// The chunk that a column is drained into, with the working memory of all columns.
pub(in crate::table) struct Chunk {
    /// The data page: levels, then values.
    pub data: Vec<u8>,
    /// How the values are encoded.
    pub encoding: Encoding,
    pub statistics: Option<Statistics>,
    rows: usize,
    nulls: usize,
    keys: Vec<u32>,
    dictionary: Dictionary,
    zstd: zstd::bulk::Compressor<'static>,
}

/// The distinct values of a chunk in their plain form.
#[derive(Default)]
pub(in crate::table) struct Dictionary {
    pub bytes: Vec<u8>,
    entries: u32,
}

impl Dictionary {
    /// Counts the entry that was appended, and gives its key.
    pub fn next_key(&mut self) -> u32 {
        self.entries += 1;
        self.entries - 1
    }
}

impl Chunk {
    pub fn new() -> Result<Self> {
        let mut zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
        // Every reader checks it, so that no damaged page is taken for data. Chunks that do not compress are
        // compressed all the same for its sake.
        zstd.include_checksum(true)?;
        Ok(Self {
            data: Vec::new(),
            encoding: Encoding::PLAIN,
            statistics: None,
            rows: 0,
            nulls: 0,
            keys: Vec::new(),
            dictionary: Dictionary::default(),
            zstd,
        })
    }

    /// Starts the next column.
    pub fn begin(&mut self, rows: usize) {
        self.data.clear();
        self.statistics = None;
        self.rows = rows;
        self.nulls = 0;
        self.keys.clear();
        self.dictionary.bytes.clear();
        self.dictionary.entries = 0;
    }

    pub fn nulls(&self) -> u64 {
        self.nulls as u64
    }

    /// The keys of the rows and the dictionary, to be filled before [`put_keys`](Self::put_keys).
    pub fn dictionary(&mut self) -> (&mut Vec<u32>, &mut Dictionary) {
        self.encoding = Encoding::RLE_DICTIONARY;
        (&mut self.keys, &mut self.dictionary)
    }

    /// Writes the keys of so many values. Where the dictionary has one entry, the keys themselves do not count.
    pub fn put_keys(&mut self, values: usize) {
        let width = bits::width(u64::from(self.dictionary.entries.saturating_sub(1)));
        self.data.push(width as u8); // CAST: at most 32
        if self.dictionary.entries == 1 {
            bits::put_run(&mut self.data, 0, values, width);
        } else {
            bits::put_hybrid(&mut self.data, &self.keys, width);
        }
    }

    /// Definition levels of a column where every row, or no row, holds a value.
    pub fn put_same_levels(&mut self, present: bool, rows: usize) {
        self.nulls = if present { 0 } else { rows };
        self.put_sized(|data| bits::put_run(data, u32::from(present), rows, 1));
    }

    /// Definition levels of a column: 1 where a row holds a value, 0 where not.
    pub fn put_levels(&mut self, levels: &[u32]) {
        self.nulls = levels.iter().filter(|level| **level == 0).count();
        self.put_sized(|data| bits::put_hybrid(data, levels, 1));
    }

    fn put_sized(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let at = self.data.len();
        self.data.extend_from_slice(&[0; 4]);
        put(&mut self.data);
        let size = (self.data.len() - at - 4) as u32; // CAST: one bit a row of a bounded group
        self.data[at..at + 4].copy_from_slice(&size.to_le_bytes());
    }

    /// The finished chunk: its bytes and their description.
    pub fn finish(&mut self, descriptor: ColumnDescPtr) -> Result<(Bytes, ColumnCloseResult)> {
        let has_dictionary = self.encoding == Encoding::RLE_DICTIONARY;
        let sizes = (self.data.len(), self.dictionary.bytes.len());
        let data = self.zstd.compress(&self.data)?;
        let dictionary = self.zstd.compress(&self.dictionary.bytes)?;

        let mut out = TrackedWrite::new(Vec::with_capacity(data.len() + dictionary.len() + 256));
        let mut pages = SerializedPageWriter::new(&mut out);
        let mut uncompressed = 0;
        let mut encodings = vec![Encoding::RLE, self.encoding]; // the levels' encoding, then the values'
        if has_dictionary {
            encodings.push(Encoding::PLAIN);
            let page = Page::DictionaryPage {
                buf: dictionary.into(),
                num_values: self.dictionary.entries,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            uncompressed += pages.write_page(CompressedPage::new(page, sizes.1))?.uncompressed_size;
        }
        let page = Page::DataPage {
            buf: data.into(),
            num_values: u32::try_from(self.rows)?,
            encoding: self.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let written = pages.write_page(CompressedPage::new(page, sizes.0))?;
        uncompressed += written.uncompressed_size;

        let bytes = Bytes::from(out.into_inner()?);
        let mut metadata = ColumnChunkMetaData::builder(descriptor)
            .set_encodings(encodings)
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_num_values(i64::try_from(self.rows)?)
            .set_total_compressed_size(i64::try_from(bytes.len())?)
            .set_total_uncompressed_size(i64::try_from(uncompressed)?)
            .set_dictionary_page_offset(has_dictionary.then_some(0))
            .set_data_page_offset(i64::try_from(written.offset)?);
        if let Some(statistics) = self.statistics.take() {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }
}
