//! Parquet's `DELTA_BINARY_PACKED`: differences to the previous value, packed with the least bits per 32 of them.

use super::bits::{pack, put_varint, put_zigzag, width};
use crate::table::column::Int;

const BLOCK: usize = 128;
const MINIBLOCKS: usize = 4;
const MINIBLOCK: usize = BLOCK / MINIBLOCKS;

/// Appends all values as one page's worth.
pub(in crate::table) fn put_delta<T: Int>(out: &mut Vec<u8>, values: &[T]) {
    put_varint(out, BLOCK as u64);
    put_varint(out, MINIBLOCKS as u64);
    put_varint(out, values.len() as u64);
    let Some((first, rest)) = values.split_first() else {
        return put_zigzag(out, 0);
    };
    put_zigzag(out, first.physical());

    let mut previous = *first;
    for block in rest.chunks(BLOCK) {
        let mut deltas = [0i64; BLOCK];
        let mut least = i64::MAX;
        for (delta, value) in deltas.iter_mut().zip(block) {
            *delta = value.minus(previous);
            least = least.min(*delta);
            previous = *value;
        }
        put_zigzag(out, least);
        put_block(out, &deltas[..block.len()], least, T::MASK);
    }
}

/// Writes what each difference is above the least one. Readers add modulo the width of the column's type, so
/// that wrapped differences come back whole, and `mask` keeps the rest to that width.
fn put_block(out: &mut Vec<u8>, deltas: &[i64], least: i64, mask: u64) {
    let above = |delta: &i64| delta.wrapping_sub(least).cast_unsigned() & mask;
    let widths_at = out.len();
    out.extend_from_slice(&[0; MINIBLOCKS]);
    for (i, miniblock) in deltas.chunks(MINIBLOCK).enumerate() {
        let bits = width(miniblock.iter().map(above).fold(0, |all, value| all | value));
        out[widths_at + i] = bits as u8; // CAST: at most 64
        let end = out.len() + MINIBLOCK * bits as usize / 8;
        pack(out, miniblock.iter().map(above), bits);
        out.resize(end, 0); // the last miniblock is always whole
    }
}
