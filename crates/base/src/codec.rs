//! Encoding and decoding of the bytes of stored records.
//!
//! [`Encoder`] appends, and [`Decoder`] reads from the front. Integers are big-endian. Lengths and counts are
//! *varints*: seven bits per byte, least significant first, the high bit set on all bytes except the last, at most ten
//! bytes.
//!
//! A decoder never panics and never allocates more than the bytes that it was given. A length that points past the end
//! is [`InvalidRecord`].

use std::fmt;

/// The record ends before its contents, or contains an impossible length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidRecord;

impl fmt::Display for InvalidRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record ends too early or contains an invalid length")
    }
}

impl std::error::Error for InvalidRecord {}

/// An encoder of a record.
#[derive(Debug, Default, Clone)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Creates an empty record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty record with a capacity of `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends eight bytes, in two's complement.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a varint.
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.bytes.push((value & 0x7F) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
        self
    }

    /// Appends bytes without a length.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends bytes, preceded by their length as a varint.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.varint(bytes.len() as u64).raw(bytes)
    }

    /// Appends a text as its UTF-8 bytes, preceded by their length.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// Returns the number of bytes appended so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns `true` if nothing was appended yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the finished record.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Returns the number of bytes that [`Encoder::varint`] appends: 1 to 10.
#[must_use]
pub fn varint_len(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

/// Returns the number of bytes that [`Encoder::bytes`] and [`Encoder::text`] append for `length` bytes.
#[must_use]
pub fn bytes_len(length: usize) -> usize {
    varint_len(length as u64) + length
}

/// A decoder of a record.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Creates a decoder at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8, InvalidRecord> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads two bytes.
    pub fn u16(&mut self) -> Result<u16, InvalidRecord> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads four bytes.
    pub fn u32(&mut self) -> Result<u32, InvalidRecord> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads eight bytes.
    pub fn u64(&mut self) -> Result<u64, InvalidRecord> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads eight bytes, in two's complement.
    pub fn i64(&mut self) -> Result<i64, InvalidRecord> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a varint.
    pub fn varint(&mut self) -> Result<u64, InvalidRecord> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(InvalidRecord)
    }

    /// Reads a varint that counts elements of at least one byte each. The remaining bytes thus bound the memory that is
    /// allocated for the elements.
    pub fn count(&mut self) -> Result<usize, InvalidRecord> {
        let count = usize::try_from(self.varint()?).map_err(|_| InvalidRecord)?;
        if count > self.rest.len() { Err(InvalidRecord) } else { Ok(count) }
    }

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], InvalidRecord> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(InvalidRecord)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads `length` bytes.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], InvalidRecord> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(InvalidRecord)?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads a length as a varint and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], InvalidRecord> {
        let length = self.count()?;
        self.raw(length)
    }

    /// Reads a text. Bytes that are not UTF-8 are an error.
    pub fn text(&mut self) -> Result<&'a str, InvalidRecord> {
        std::str::from_utf8(self.bytes()?).map_err(|_| InvalidRecord)
    }

    /// Returns the bytes that were not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns `true` if all bytes were read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_values_round_trip() {
        let mut encoder = Encoder::new();
        encoder.u8(1).u16(2).u32(3).u64(4).i64(-5).varint(300).bytes(b"six").text("sieben");
        let record = encoder.finish();
        let mut decoder = Decoder::new(&record);
        assert_eq!(decoder.u8(), Ok(1));
        assert_eq!(decoder.u16(), Ok(2));
        assert_eq!(decoder.u32(), Ok(3));
        assert_eq!(decoder.u64(), Ok(4));
        assert_eq!(decoder.i64(), Ok(-5));
        assert_eq!(decoder.varint(), Ok(300));
        assert_eq!(decoder.bytes(), Ok(&b"six"[..]));
        assert_eq!(decoder.text(), Ok("sieben"));
        assert!(decoder.is_empty());
    }

    #[test]
    fn every_varint_reads_back() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut encoder = Encoder::new();
                encoder.varint(value);
                assert_eq!(Decoder::new(&encoder.finish()).varint(), Ok(value));
            }
        }
    }

    #[test]
    fn a_length_past_the_end_is_refused() {
        assert_eq!(Decoder::new(&[200, 1, 0]).bytes(), Err(InvalidRecord));
        assert_eq!(Decoder::new(&[0xFF; 11]).varint(), Err(InvalidRecord));
        assert_eq!(Decoder::new(&[]).u8(), Err(InvalidRecord));
    }
}
