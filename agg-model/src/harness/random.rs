//! Numbers from a seed, for schedules and test values.

/// xorshift64*: enough for schedules, and no dependency.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// True this often in a thousand.
    pub fn permille(&mut self, often: u64) -> bool {
        self.below(1000) < often
    }

    /// Any integers.
    pub fn integers(&mut self, count: usize) -> Vec<i32> {
        (0..count).map(|_| (self.bits() >> 32) as i32).collect()
    }

    /// Floats of magnitudes from 2^lowest to below 2^highest (within what f32 has), some of them zeros.
    pub fn floats(&mut self, count: usize, lowest: i32, highest: i32) -> Vec<f32> {
        let mut float = || {
            if self.permille(30) {
                return 0.0;
            }
            let exponent = lowest + self.below((highest - lowest) as u64) as i32;
            let fraction = 1.0 + (self.bits() >> 12) as f64 / 2_f64.powi(52);
            let sign = if self.permille(500) { 1.0 } else { -1.0 };
            // Rounding may reach 2^128: keep it finite.
            ((sign * fraction * 2_f64.powi(exponent)) as f32).clamp(f32::MIN, f32::MAX)
        };
        (0..count).map(|_| float()).collect()
    }
}
