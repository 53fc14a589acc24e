//! Named random streams and the few draws this project makes from them, bit-equal on every platform.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers belonging to one component, named so that adding a consumer elsewhere
/// shifts no draws here.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream `name` of experiment seed `seed`.
    pub fn new(seed: u64, name: &str) -> Stream {
        Stream(Xoshiro256PlusPlus::seed_from_u64(xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed)))
    }
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// Uniform in [0, 1), 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Uniform in 0 .. `n` without bias worth speaking of (multiply-shift on 64 bits). `n` must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0, "below(0) has no answer");
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
    /// Exponential with the given mean (same unit as the answer).
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.unit())
    }
    /// Fisher–Yates shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_fixed_for_ever() {
        let mut s = Stream::new(1, "golden");
        let first = [s.bits(), s.bits()];
        let mut again = Stream::new(1, "golden");
        assert_eq!(first, [again.bits(), again.bits()]);
        assert_ne!(first[0], Stream::new(2, "golden").bits());
        assert_ne!(first[0], Stream::new(1, "other").bits());
    }

    #[test]
    fn means_are_right() {
        let mut s = Stream::new(7, "means");
        let n = 200_000;
        let mean: f64 = (0..n).map(|_| s.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.03, "{mean}");
        let ones = (0..n).filter(|_| s.below(3) == 1).count() as f64 / f64::from(n);
        assert!((ones - 1.0 / 3.0).abs() < 0.005, "{ones}");
    }
}
