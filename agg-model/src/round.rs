//! The order of rounds (R-CHUNK-4).

/// Whether round `a` is after round `b`.
pub fn is_after(a: u32, b: u32) -> bool {
    let ahead = (i64::from(a) - i64::from(b)).rem_euclid(1 << 32);
    0 < ahead && ahead < 1 << 31
}
