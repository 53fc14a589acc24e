//! Named random streams and their distributions, bit-equal on every platform.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The random numbers of one component. A new named stream does not shift the others' draws.
#[derive(Clone, Debug)]
pub struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// Creates the stream `name` of the experiment seed `seed`.
    pub fn new(seed: u64, name: &str) -> RandomStream {
        RandomStream(Xoshiro256PlusPlus::seed_from_u64(xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed)))
    }
    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// Returns a uniform number in [0, 1) with 53 bits.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Returns a uniform number in 0 .. `n`, above 0 (multiply-shift, negligible bias).
    pub fn next_below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0, "next_below(0) is undefined");
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
    /// Returns an exponential number with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.next_f64())
    }
    /// Shuffles by Fisher–Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.next_below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_seed_and_name_only() {
        let mut s = RandomStream::new(1, "golden");
        let first = [s.next_u64(), s.next_u64()];
        let mut again = RandomStream::new(1, "golden");
        assert_eq!(first, [again.next_u64(), again.next_u64()]);
        assert_ne!(first[0], RandomStream::new(2, "golden").next_u64());
        assert_ne!(first[0], RandomStream::new(1, "other").next_u64());
    }

    #[test]
    fn means_match_distributions() {
        let mut s = RandomStream::new(7, "means");
        let n = 200_000;
        let mean: f64 = (0..n).map(|_| s.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.03, "{mean}");
        let ones = (0..n).filter(|_| s.next_below(3) == 1).count() as f64 / f64::from(n);
        assert!((ones - 1.0 / 3.0).abs() < 0.005, "{ones}");
    }
}
