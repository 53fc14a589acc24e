//! Splits in whole quanta, as the weights of groups in switches.

/// A share that is this little below a whole number of quanta counts as that number.
const EPSILON: f64 = 1e-9;

/// Rounds a split to multiples of `1 / quanta`: down, and the remaining quanta to the rates that
/// lost most, of equals to the first. Returns quanta by rate: zeros if all rates are 0.
pub fn quantise(rates: &[f64], quanta: u32) -> Vec<u32> {
    let total: f64 = rates.iter().sum();
    if total <= 0.0 {
        return vec![0; rates.len()];
    }
    let ideal: Vec<f64> = rates.iter().map(|rate| rate / total * f64::from(quanta)).collect();
    let mut parts: Vec<u32> = ideal.iter().map(|share| (share + EPSILON).floor() as u32).collect();
    let remaining = quanta.saturating_sub(parts.iter().sum());
    for _ in 0..remaining {
        let lost = |nth: &usize| ideal[*nth] - f64::from(parts[*nth]);
        let most = (0..parts.len()).rev().max_by(|a, b| lost(a).total_cmp(&lost(b)));
        most.into_iter().for_each(|nth| parts[nth] += 1);
    }
    parts
}
