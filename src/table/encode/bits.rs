//! Bit packing, and Parquet's hybrid of runs and packed groups.

/// Appends an unsigned LEB128 number.
pub(in crate::table) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80); // CAST: seven bits
        value >>= 7;
    }
    out.push(value as u8); // CAST: below 0x80
}

/// Appends a signed number, zigzag and LEB128.
pub(in crate::table) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// How many bits a value needs; 0 for 0.
pub(in crate::table) fn width(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Appends values of `width` bits each, lowest bit first; the last byte is filled with zeros.
///
/// No value may need more than `width` bits, and `width` is at most 64.
pub(in crate::table) fn pack(out: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: u32) {
    if width == 0 {
        return;
    }
    let mut word = 0u64;
    let mut filled = 0;
    for value in values {
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= u64::BITS;
            // What of the value did not fit; nothing where it ended with the word.
            word = if filled == 0 { 0 } else { value >> (width - filled) };
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Shorter runs cost less inside a packed group than their own header does.
const MIN_RUN: usize = 8;

/// Appends values of `width` bits (at most 32) as runs where they repeat and as packed groups of eight where not.
pub(in crate::table) fn put_hybrid(out: &mut Vec<u8>, values: &[u32], width: u32) {
    let mut literal = 0; // where the values begin that are not written yet
    let mut at = 0;
    while let Some(&value) = values.get(at) {
        // A run that begins before the last of the next eight values holds that one and its neighbour.
        if let Some([.., left, right]) = values.get(at..at + MIN_RUN)
            && left != right
        {
            at += MIN_RUN - 1;
            continue;
        }
        let run = values[at..].iter().take_while(|other| **other == value).count();
        // Packed groups hold eight values, so the run first fills the open group.
        let fill = (at - literal).next_multiple_of(8) - (at - literal);
        if run >= fill + MIN_RUN {
            put_groups(out, &values[literal..at + fill], width);
            put_run(out, value, run - fill, width);
            literal = at + run;
        }
        at += run;
    }
    put_groups(out, &values[literal..], width);
}

/// Appends one run of a value.
pub(in crate::table) fn put_run(out: &mut Vec<u8>, value: u32, length: usize, width: u32) {
    put_varint(out, (length as u64) << 1);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

fn put_groups(out: &mut Vec<u8>, values: &[u32], width: u32) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    put_varint(out, (groups as u64) << 1 | 1);
    let end = out.len() + groups * width as usize;
    pack(out, values.iter().map(|value| u64::from(*value)), width);
    out.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plain reading of the specification, to check the writer with.
    fn unpack(bytes: &[u8], count: usize, width: u32) -> Vec<u64> {
        let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
        let width = width as usize;
        (0..count).map(|i| (0..width).map(|b| bit(i * width + b) << b).sum()).collect()
    }

    fn read_hybrid(mut bytes: &[u8], count: usize, width: u32) -> Vec<u32> {
        let mut values = Vec::new();
        while values.len() < count {
            let (mut header, mut shift) = (0u64, 0);
            loop {
                let byte = bytes[0];
                bytes = &bytes[1..];
                header |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let size = if header & 1 == 1 {
                let groups = (header >> 1) as usize;
                values.extend(unpack(bytes, groups * 8, width).into_iter().map(|value| value as u32));
                groups * width as usize
            } else {
                let size = width.div_ceil(8) as usize;
                let value = unpack(bytes, 1, width)[0] as u32;
                values.extend(std::iter::repeat_n(value, (header >> 1) as usize));
                size
            };
            bytes = &bytes[size..];
        }
        assert!(bytes.is_empty(), "{} bytes too many", bytes.len());
        values.truncate(count);
        values
    }

    #[test]
    fn a_constant_column_is_one_run() {
        let mut out = Vec::new();
        put_hybrid(&mut out, &[0; 131_072], 0);
        assert_eq!(out.len(), 3);
    }

    proptest! {
        #[test]
        fn packed_values_come_back(width in 1u32..=64, values in prop::collection::vec(any::<u64>(), 0..200)) {
            let mask = u64::MAX >> (64 - width);
            let values: Vec<u64> = values.into_iter().map(|value| value & mask).collect();
            let mut out = Vec::new();
            pack(&mut out, values.iter().copied(), width);
            prop_assert_eq!(unpack(&out, values.len(), width), values);
        }

        #[test]
        fn runs_and_groups_come_back(runs in prop::collection::vec((0u32..9, 1usize..30), 0..40)) {
            let values: Vec<u32> = runs.iter().flat_map(|(value, n)| std::iter::repeat_n(*value, *n)).collect();
            let mut out = Vec::new();
            put_hybrid(&mut out, &values, 4);
            prop_assert_eq!(read_hybrid(&out, values.len(), 4), values);
        }
    }
}
