//! Random numbers that are the same everywhere for the same seed.

/// SplitMix64 (Steele, Lea and Flood 2014). A stored seed gives the same order of runs and the same resamples with
/// every version of this crate, which is why it is not a library's default generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end`, without `end`; 0 for an `end` of 0.
    pub fn below(&mut self, end: usize) -> usize {
        // The high half of the product (Lemire 2019, without the rejection: the bias is below end/2⁶⁴).
        let product = u128::from(self.bits()) * end as u128;
        (product >> 64) as usize // CAST: less than `end`
    }

    /// Puts items into a random order, each order as likely as any other (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }

    /// A number from 0 to 1, without either.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}
