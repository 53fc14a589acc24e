//! Writers that append fields, and fill in lengths afterwards.

use super::EncodeError;

/// Receives the bytes of messages: a buffer, or [`Length`], which only counts them.
pub(super) trait Writer {
    type Error;

    /// Returns the number of bytes so far.
    fn len(&self) -> usize;
    fn bytes(&mut self, bytes: &[u8]);
    fn zeros(&mut self, count: usize);
    /// Overwrites bytes that were written as zeros.
    fn overwrite(&mut self, at: usize, bytes: &[u8]);
    /// Returns the error of a value that has no encoding, unless `is_valid`.
    fn check(&self, is_valid: bool, words: impl FnOnce() -> String) -> Result<(), Self::Error>;

    #[inline(always)]
    fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }
    #[inline(always)]
    fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }
    #[inline(always)]
    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }
    #[inline(always)]
    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes zeros until the length of the structure is a multiple of eight.
    #[inline(always)]
    fn pad_to_8(&mut self, start: usize) {
        let length = self.len() - start;
        self.zeros(length.next_multiple_of(8) - length);
    }

    /// Writes the length of the structure, `at` bytes from its start.
    #[inline(always)]
    fn patch_len(&mut self, start: usize, at: usize, what: &str) -> Result<(), Self::Error> {
        let length = self.len() - start;
        self.check(length <= 0xffff, || format!("{what} of {length} bytes is longer than 65,535"))?;
        self.overwrite(start + at, &(length as u16).to_be_bytes());
        Ok(())
    }

    fn duration_ns(&mut self, duration: u64) -> Result<(), Self::Error> {
        // Unknown durations are sent as all ones: more nanoseconds than a second has.
        let seconds = (duration / 1_000_000_000).min(u64::from(u32::MAX));
        let nanoseconds = duration - seconds * 1_000_000_000;
        let is_short = nanoseconds <= u64::from(u32::MAX);
        self.check(is_short, || format!("a duration of {duration} ns is longer than 2^32 s"))?;
        self.u32(seconds as u32);
        self.u32(nanoseconds as u32);
        Ok(())
    }

    /// Writes a string in `size` bytes that ends with a zero.
    fn string(&mut self, text: &str, size: usize, what: &str) -> Result<(), Self::Error> {
        self.check(text.len() < size && !text.contains('\0'), || {
            format!("{what} {text:?} must be at most {} bytes without a zero", size - 1)
        })?;
        let start = self.len();
        self.zeros(size);
        self.overwrite(start, text.as_bytes());
        Ok(())
    }
}

impl Writer for Vec<u8> {
    type Error = EncodeError;

    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    #[inline(always)]
    fn zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }
    #[inline(always)]
    fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        self[at..][..bytes.len()].copy_from_slice(bytes);
    }
    #[inline(always)]
    fn check(&self, is_valid: bool, words: impl FnOnce() -> String) -> Result<(), Self::Error> {
        if is_valid { Ok(()) } else { Err(refusal(words)) }
    }
}

#[cold]
#[inline(never)]
fn refusal(words: impl FnOnce() -> String) -> EncodeError {
    EncodeError { message: words() }
}

/// The length of what was written, also of values without an encoding.
pub(super) struct Length(pub(super) usize);

impl Writer for Length {
    type Error = core::convert::Infallible;

    #[inline(always)]
    fn len(&self) -> usize {
        self.0
    }
    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
    #[inline(always)]
    fn zeros(&mut self, count: usize) {
        self.0 += count;
    }
    #[inline(always)]
    fn overwrite(&mut self, _: usize, _: &[u8]) {}
    #[inline(always)]
    fn check(&self, _: bool, _: impl FnOnce() -> String) -> Result<(), Self::Error> {
        Ok(())
    }
}
