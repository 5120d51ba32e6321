//! Checked little-endian reading of a byte slice.

use crate::error::{Result, corrupt};

/// A position in a byte slice. Every read is checked; a short slice is [`CodecError::Corrupt`](crate::CodecError::Corrupt).
#[derive(Debug, Clone)]
pub struct ByteCursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> ByteCursor<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// Corrupt if fewer than `n` bytes are left.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        match rest.get(..n) {
            Some(taken) => {
                self.position += n;
                Ok(taken)
            }
            None => self.too_short(n),
        }
    }

    /// Moves over `n` bytes.
    ///
    /// # Errors
    /// Corrupt if fewer than `n` bytes are left.
    pub fn skip(&mut self, n: usize) -> Result<()> {
        self.take(n).map(drop)
    }

    /// The next byte.
    ///
    /// # Errors
    /// Corrupt at the end of the bytes.
    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// The next 2 bytes.
    ///
    /// # Errors
    /// Corrupt if they are not there.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next 4 bytes.
    ///
    /// # Errors
    /// Corrupt if they are not there.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next 8 bytes.
    ///
    /// # Errors
    /// Corrupt if they are not there.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Checks that everything was read.
    ///
    /// # Errors
    /// Corrupt if bytes are left over.
    pub fn expect_end(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            left => corrupt(format!("{left} unexpected bytes after byte {}", self.position)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        match rest.first_chunk::<N>() {
            Some(array) => {
                self.position += N;
                Ok(*array)
            }
            None => self.too_short(N),
        }
    }

    #[cold]
    fn too_short<T>(&self, n: usize) -> Result<T> {
        corrupt(format!(
            "need {n} bytes at byte {}, only {} left",
            self.position,
            self.remaining()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_little_endian_and_stops_at_the_end() {
        let mut cursor = ByteCursor::new(&[1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9, 8]);
        assert_eq!(cursor.u8(), Ok(1));
        assert_eq!(cursor.u16(), Ok(2));
        assert_eq!(cursor.u32(), Ok(3));
        assert_eq!(cursor.u64(), Ok(4));
        assert_eq!((cursor.position(), cursor.remaining()), (15, 2));
        assert!(cursor.u32().is_err() && cursor.expect_end().is_err());
        assert_eq!(cursor.take(2), Ok(&[9u8, 8][..]));
        assert!(cursor.take(usize::MAX).is_err() && cursor.skip(1).is_err() && cursor.u8().is_err());
        assert_eq!(cursor.expect_end(), Ok(()));
    }
}
