//! Reading and writing the bytes of stored records.
//!
//! [`Encoder`] appends, [`Decoder`] takes from the front. Integers are big-endian; lengths and counts are *varints*
//! (seven bits a byte, least significant first, the high bit set on all but the last byte; at most ten bytes).
//! A decoder never panics and never allocates more than the bytes that it was given: a length that points past the
//! end is [`Truncated`].

use std::fmt;

/// The record ends before its contents do, or a length in it cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated;

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record is shorter than its contents say")
    }
}

impl std::error::Error for Truncated {}

/// Builds a record.
#[derive(Debug, Default, Clone)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Starts an empty record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts an empty record with room for `capacity` bytes.
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

    /// Appends eight bytes, two's complement.
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

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends a varint length and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.varint(bytes.len() as u64).raw(bytes)
    }

    /// Appends a text as its UTF-8 bytes, with their length before them.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// Tells how many bytes there are so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Tells whether nothing was appended yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Gives the finished record.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Tells how many bytes [`Encoder::varint`] appends: 1 to 10.
#[must_use]
pub fn varint_len(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

/// Tells how many bytes [`Encoder::bytes`] and [`Encoder::text`] append for so many.
#[must_use]
pub fn bytes_len(length: usize) -> usize {
    varint_len(length as u64) + length
}

/// Takes a record apart.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.array::<1>()?[0])
    }

    /// Takes two bytes.
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes four bytes.
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes eight bytes.
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes eight bytes, two's complement.
    pub fn i64(&mut self) -> Result<i64, Truncated> {
        self.array().map(i64::from_be_bytes)
    }

    /// Takes a varint.
    pub fn varint(&mut self) -> Result<u64, Truncated> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Truncated)
    }

    /// Takes a varint that counts things of at least one byte each, so that it bounds what is allocated for them.
    pub fn count(&mut self) -> Result<usize, Truncated> {
        let count = usize::try_from(self.varint()?).map_err(|_| Truncated)?;
        if count > self.rest.len() { Err(Truncated) } else { Ok(count) }
    }

    /// Takes `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Takes `length` bytes as they are.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Truncated> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// Takes a varint length and as many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let length = self.count()?;
        self.raw(length)
    }

    /// Takes a text; bytes that are not UTF-8 count as damage.
    pub fn text(&mut self) -> Result<&'a str, Truncated> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Truncated)
    }

    /// Gives what was not taken yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Tells whether everything was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
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
        assert_eq!(Decoder::new(&[200, 1, 0]).bytes(), Err(Truncated));
        assert_eq!(Decoder::new(&[0xFF; 11]).varint(), Err(Truncated));
        assert_eq!(Decoder::new(&[]).u8(), Err(Truncated));
    }
}
