//! Random draws that several balancers need.

use net::RandomStream;

/// Fills `picks` with distinct numbers below `n`, every set of them alike probable, with one draw each
/// (Floyd's algorithm). Their order is not random. `n` must not be smaller than the number of picks.
pub(crate) fn sample(rng: &mut RandomStream, n: usize, picks: &mut [u32]) {
    let count = picks.len();
    for i in 0..count {
        let drawn = rng.next_below((n - count + i + 1) as u64) as u32;
        picks[i] = if picks[..i].contains(&drawn) { (n - count + i) as u32 } else { drawn };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_alike_probable() {
        let mut rng = RandomStream::new(1, "draw");
        let mut hits = [[0u32; 5]; 5];
        for _ in 0..20_000 {
            let mut picks = [0; 2];
            sample(&mut rng, 5, &mut picks);
            picks.sort_unstable();
            hits[picks[0] as usize][picks[1] as usize] += 1;
        }
        for (low, row) in hits.iter().enumerate() {
            for (high, hits) in row.iter().enumerate() {
                let is_expected = if low < high { (1_850..2_150).contains(hits) } else { *hits == 0 };
                assert!(is_expected, "{low}, {high}: {hits}");
            }
        }
    }
}
