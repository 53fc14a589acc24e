//! A checked cursor over the bytes of one message.

use super::HEADER_LEN;
use crate::error::{BadRequest, ErrorKind};

/// Why bytes cannot be decoded; becomes a [`DecodeError`](super::DecodeError) once the message it was in is known.
/// Boxed, so that the results of reading numbers fit in registers.
#[derive(Debug)]
pub(super) struct Fault(Box<Details>);

/// What is wrong.
#[derive(Debug)]
pub(super) struct Details {
    /// Bytes from the beginning of the message.
    pub offset: usize,
    /// What to answer.
    pub kind: ErrorKind,
    /// In words.
    pub words: String,
    /// Whether the bytes are well formed but stand for something that no value here can hold.
    pub is_unknown: bool,
}

impl Fault {
    /// Bytes that break the rules.
    #[cold]
    pub fn new(offset: usize, kind: ErrorKind, words: impl Into<String>) -> Fault {
        Fault(Box::new(Details { offset, kind, words: words.into(), is_unknown: false }))
    }

    /// Bytes that may keep the rules of something not known here.
    #[cold]
    pub fn unknown(offset: usize, kind: ErrorKind, words: impl Into<String>) -> Fault {
        let mut fault = Fault::new(offset, kind, words);
        fault.0.is_unknown = true;
        fault
    }

    /// Whether it may keep the rules of something not known here.
    pub fn is_unknown(&self) -> bool {
        self.0.is_unknown
    }

    /// All about it.
    pub fn details(self) -> Details {
        *self.0
    }
}

/// The bytes of a message, or of one structure in it, from where reading has come to.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
    /// What to answer if the structure is too short for its content.
    short: ErrorKind,
}

impl<'a> Reader<'a> {
    /// The body of a whole message.
    pub fn behind_header(message: &'a [u8]) -> Reader<'a> {
        let rest = message.get(HEADER_LEN..).unwrap_or_default();
        Reader { rest, offset: HEADER_LEN, short: ErrorKind::BadRequest(BadRequest::BadLen) }
    }

    /// The same bytes; running out of them is to be answered like this.
    #[inline]
    pub fn short_as(self, short: ErrorKind) -> Reader<'a> {
        Reader { short, ..self }
    }

    /// Bytes from the beginning of the message to here.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes left.
    #[inline]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether all is read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A fault about the length of this structure.
    #[cold]
    pub fn bad_len(&self, words: impl Into<String>) -> Fault {
        Fault::new(self.offset, self.short, words)
    }

    #[cold]
    fn too_short(&self, wanted: usize) -> Fault {
        self.bad_len(format!("{wanted} bytes wanted, {} left", self.rest.len()))
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else { return Err(self.too_short(count)) };
        (self.rest, self.offset) = (rest, self.offset + count);
        Ok(taken)
    }

    /// The next bytes, as many as the type says.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else { return Err(self.too_short(N)) };
        (self.rest, self.offset) = (rest, self.offset + N);
        Ok(*taken)
    }

    /// All that is left.
    #[inline]
    pub fn remainder(&mut self) -> &'a [u8] {
        let taken = self.rest;
        (self.rest, self.offset) = (&[], self.offset + taken.len());
        taken
    }

    /// A structure of the next `count` bytes.
    #[inline]
    pub fn part(&mut self, count: usize) -> Result<Reader<'a>, Fault> {
        let (offset, short) = (self.offset, self.short);
        Ok(Reader { rest: self.bytes(count)?, offset, short })
    }

    /// The next bytes, still to be read; `None` if there are fewer.
    #[inline]
    pub fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.rest.first_chunk()
    }

    /// Padding, whatever is in it.
    #[inline]
    pub fn skip(&mut self, count: usize) -> Result<(), Fault> {
        self.bytes(count).map(|_| ())
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    /// Seconds and nanoseconds, as nanoseconds.
    #[inline]
    pub fn duration_ns(&mut self) -> Result<u64, Fault> {
        let (seconds, nanoseconds) = (self.u32()?, self.u32()?);
        Ok(u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds))
    }

    /// A string in `N` bytes, ended by a zero. What is no UTF-8 becomes question marks, byte by byte, so that it still
    /// fits when written again.
    pub fn string<const N: usize>(&mut self) -> Result<String, Fault> {
        let field = self.array::<N>()?;
        // The last byte is the zero's, even if the sender forgot it.
        let text = field[..N - 1].split(|&byte| byte == 0).next().unwrap_or_default();
        let mut string = String::with_capacity(text.len());
        for chunk in text.utf8_chunks() {
            string.push_str(chunk.valid());
            string.extend(chunk.invalid().iter().map(|_| '?'));
        }
        Ok(string)
    }

    /// That nothing is left.
    #[inline]
    pub fn end(&self) -> Result<(), Fault> {
        if self.is_empty() { Ok(()) } else { Err(self.bad_len(format!("{} bytes too many", self.len()))) }
    }
}
