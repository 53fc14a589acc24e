//! A writer that appends fields to a buffer and fills in lengths afterwards.

use super::EncodeError;

pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Start(usize);

impl<'a> Writer<'a> {
    #[inline]
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out }
    }

    #[inline]
    pub fn start(&self) -> Start {
        Start(self.out.len())
    }

    #[inline]
    pub fn since(&self, start: Start) -> usize {
        self.out.len() - start.0
    }

    pub fn undo(&mut self, start: Start) {
        self.out.truncate(start.0);
    }

    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    pub fn zeros(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, 0);
    }

    /// Writes zeros until the length of the structure is a multiple of eight.
    #[inline]
    pub fn pad_to_8(&mut self, start: Start) {
        let length = self.since(start);
        self.zeros(length.next_multiple_of(8) - length);
    }

    /// Overwrites two bytes, `at` bytes from the start of the structure, that were written as
    /// zeros.
    #[inline]
    pub fn patch(&mut self, start: Start, at: usize, value: u16) {
        self.out[start.0 + at..][..2].copy_from_slice(&value.to_be_bytes());
    }

    /// Overwrites a byte, `at` bytes from the start of the structure.
    pub fn patch_u8(&mut self, start: Start, at: usize, value: u8) {
        self.out[start.0 + at] = value;
    }

    pub fn patch_len(&mut self, start: Start, at: usize, what: &str) -> Result<(), EncodeError> {
        let length = self.since(start);
        let Ok(short) = u16::try_from(length) else {
            return Err(EncodeError::new(format!("{what} of {length} bytes is longer than 65,535")));
        };
        self.patch(start, at, short);
        Ok(())
    }

    pub fn duration_ns(&mut self, duration: u64) -> Result<(), EncodeError> {
        // Unknown durations are sent as all ones: more nanoseconds than a second has.
        let seconds = (duration / 1_000_000_000).min(u64::from(u32::MAX));
        let Ok(nanoseconds) = u32::try_from(duration - seconds * 1_000_000_000) else {
            return Err(EncodeError::new(format!("a duration of {duration} ns is longer than 2^32 s")));
        };
        self.u32(seconds as u32);
        self.u32(nanoseconds);
        Ok(())
    }

    /// Writes a string in `size` bytes that ends with a zero.
    pub fn string(&mut self, text: &str, size: usize, what: &str) -> Result<(), EncodeError> {
        if text.len() >= size || text.contains('\0') {
            return Err(EncodeError::new(format!("{what} {text:?} must be at most {} bytes without a zero", size - 1)));
        }
        self.bytes(text.as_bytes());
        self.zeros(size - text.len());
        Ok(())
    }
}
