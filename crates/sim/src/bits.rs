//! Rings of bits, one per segment; the number of words is a power of two.

#[inline]
fn place(segment: u32, words: usize) -> (usize, u64) {
    ((segment >> 6) as usize & (words - 1), 1 << (segment & 63))
}

#[inline]
pub(crate) fn has(bits: &[u64], segment: u32) -> bool {
    let (word, bit) = place(segment, bits.len());
    bits[word] & bit != 0
}

/// Sets a bit. Returns whether it was clear.
#[inline]
pub(crate) fn put(bits: &mut [u64], segment: u32) -> bool {
    let (word, bit) = place(segment, bits.len());
    let was_clear = bits[word] & bit == 0;
    bits[word] |= bit;
    was_clear
}

/// Clears a bit. Returns whether it was set.
#[inline]
pub(crate) fn take(bits: &mut [u64], segment: u32) -> bool {
    let (word, bit) = place(segment, bits.len());
    let was_set = bits[word] & bit != 0;
    bits[word] &= !bit;
    was_set
}
