//! A checked cursor over the bytes of one message.

use super::HEADER_LEN;
use crate::error::{BadRequest, ErrorKind};

/// A decoding error, which becomes a [`DecodeError`](super::DecodeError) once its message is known.
/// Boxed, so that the results of reading numbers fit in registers.
#[derive(Debug)]
pub(super) struct ReadError(Box<ReadErrorDetails>);

#[derive(Debug)]
pub(super) struct ReadErrorDetails {
    pub offset: usize,
    pub kind: ErrorKind,
    pub message: String,
}

impl ReadError {
    /// Creates an error about bytes that violate the specification, or that no value represents.
    #[cold]
    pub fn new(offset: usize, kind: ErrorKind, words: impl Into<String>) -> ReadError {
        ReadError(Box::new(ReadErrorDetails { offset, kind, message: words.into() }))
    }

    /// Returns whether this is the error to send.
    pub fn is(&self, kind: ErrorKind) -> bool {
        self.0.kind == kind
    }

    pub fn details(self) -> ReadErrorDetails {
        *self.0
    }
}

/// The unread bytes of a message, or of one structure in it.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
    /// Error to send if the structure is too short for its content.
    short: ErrorKind,
}

impl<'a> Reader<'a> {
    pub fn behind_header(message: &'a [u8]) -> Reader<'a> {
        let rest = message.get(HEADER_LEN..).unwrap_or_default();
        Reader { rest, offset: HEADER_LEN, short: ErrorKind::BadRequest(BadRequest::BadLen) }
    }

    /// Returns the same reader with another error for missing bytes.
    #[inline]
    pub fn short_as(self, short: ErrorKind) -> Reader<'a> {
        Reader { short, ..self }
    }

    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[cold]
    pub fn bad_len(&self, words: impl Into<String>) -> ReadError {
        ReadError::new(self.offset, self.short, words)
    }

    #[cold]
    fn too_short(&self, wanted: usize) -> ReadError {
        self.bad_len(format!("{wanted} bytes wanted, {} left", self.rest.len()))
    }

    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else { return Err(self.too_short(count)) };
        (self.rest, self.offset) = (rest, self.offset + count);
        Ok(taken)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else { return Err(self.too_short(N)) };
        (self.rest, self.offset) = (rest, self.offset + N);
        Ok(*taken)
    }

    #[inline]
    pub fn remainder(&mut self) -> &'a [u8] {
        let taken = self.rest;
        (self.rest, self.offset) = (&[], self.offset + taken.len());
        taken
    }

    #[inline]
    pub fn part(&mut self, count: usize) -> Result<Reader<'a>, ReadError> {
        let (offset, short) = (self.offset, self.short);
        Ok(Reader { rest: self.bytes(count)?, offset, short })
    }

    /// Returns the next bytes without reading them; `None` if there are fewer.
    #[inline]
    pub fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.rest.first_chunk()
    }

    #[inline]
    pub fn skip(&mut self, count: usize) -> Result<(), ReadError> {
        self.bytes(count).map(|_| ())
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, ReadError> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, ReadError> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, ReadError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, ReadError> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline]
    pub fn duration_ns(&mut self) -> Result<u64, ReadError> {
        let (seconds, nanoseconds) = (self.u32()?, self.u32()?);
        Ok(u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds))
    }

    /// Reads a string in `N` bytes that ends with a zero. Each byte that is not UTF-8
    /// becomes `?`, so that the string still fits when it is written again.
    pub fn string<const N: usize>(&mut self) -> Result<String, ReadError> {
        let field = self.array::<N>()?;
        // The last byte belongs to the zero, even if the sender forgot it.
        let text = field[..N - 1].split(|&byte| byte == 0).next().unwrap_or_default();
        let mut string = String::with_capacity(text.len());
        for chunk in text.utf8_chunks() {
            string.push_str(chunk.valid());
            string.extend(chunk.invalid().iter().map(|_| '?'));
        }
        Ok(string)
    }

    /// Returns the value with a number that was read at `offset`; `what` names it in the error.
    #[inline]
    pub fn known<T: Copy>(
        offset: usize,
        number: impl Into<u32>,
        values: &[T],
        error: ErrorKind,
        what: &str,
    ) -> Result<T, ReadError> {
        let number = number.into();
        let value = values.get(number as usize).copied();
        value.ok_or_else(|| ReadError::new(offset, error, format!("{what} {number}")))
    }

    #[inline]
    pub fn end(&self) -> Result<(), ReadError> {
        if self.is_empty() { Ok(()) } else { Err(self.bad_len(format!("{} bytes too many", self.len()))) }
    }
}
