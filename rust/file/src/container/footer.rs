//! The footer: the last 40 bytes of a file (format chapter 10, 3).
//!
//! ```text
//! u64 column_meta_start  u64 cmo_start  u64 gbo_start  u32 num_global_buffers  u32 num_columns
//! u16 major  u16 minor  "LANC"
//! ```

use glaive_codec::ByteCursor;

use crate::{Context, Error, FileVersion, Result};

/// Length of the footer in bytes.
pub const FOOTER_LEN: u64 = 40;

/// Length of one entry of the column and global buffer tables: position and size, both u64.
pub const TABLE_ENTRY_LEN: u64 = 16;

const MAGIC: &[u8; 4] = b"LANC";

/// A checked footer: all sections lie in order inside the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// Position of the metadata of column 0.
    pub column_meta_start: u64,
    /// Position of the column metadata offset table.
    pub cmo_start: u64,
    /// Position of the global buffer offset table.
    pub gbo_start: u64,
    /// Entries of the global buffer offset table.
    pub num_global_buffers: u32,
    /// Entries of the column metadata offset table.
    pub num_columns: u32,
    /// Version of the page grammar.
    pub version: FileVersion,
}

impl Footer {
    /// Parses the last [`FOOTER_LEN`] bytes of a file of `file_size` bytes.
    pub fn parse(bytes: &[u8], file_size: u64) -> Result<Self> {
        let mut cursor = ByteCursor::new(bytes);
        let footer = (|| {
            let (column_meta_start, cmo_start, gbo_start) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
            let (num_global_buffers, num_columns) = (cursor.u32()?, cursor.u32()?);
            let (major, minor) = (cursor.u16()?, cursor.u16()?);
            let magic = cursor.take(4)?;
            if magic != MAGIC {
                return Err(Error::corrupt(format!(
                    "file does not appear to be a Lance file (invalid magic {magic:02x?}, expected \"LANC\")"
                )));
            }
            let version = FileVersion::from_footer(major, minor)?;
            Ok(Self {
                column_meta_start,
                cmo_start,
                gbo_start,
                num_global_buffers,
                num_columns,
                version,
            })
        })()
        .context(|| "footer")?;
        footer.check_sections(file_size).context(|| "footer")?;
        Ok(footer)
    }

    fn check_sections(&self, file_size: u64) -> Result<()> {
        let end = file_size.saturating_sub(FOOTER_LEN);
        let ordered = self.column_meta_start <= self.cmo_start
            && self.cmo_start <= self.gbo_start
            && self.gbo_start <= end;
        if !ordered {
            return Err(Error::corrupt(format!(
                "sections out of order: column metadata at {}, column table at {}, global buffer table at {}, \
                 footer at {end}",
                self.column_meta_start, self.cmo_start, self.gbo_start
            )));
        }
        let columns = u64::from(self.num_columns) * TABLE_ENTRY_LEN;
        if self.is_of_long_form(file_size) {
            return Err(Error::unsupported(
                "a footer of 48 bytes, as the experimental writer of pylance 0.10 made it; no other version reads it: read the file \
                 with that version and write it anew",
            ));
        }
        if self.gbo_start - self.cmo_start != columns {
            return Err(Error::corrupt(format!(
                "the column table of {} columns takes {columns} bytes, but {} lie between the two tables",
                self.num_columns,
                self.gbo_start - self.cmo_start
            )));
        }
        let buffers = u64::from(self.num_global_buffers) * TABLE_ENTRY_LEN;
        if buffers > end - self.gbo_start {
            return Err(Error::corrupt(format!(
                "the table of {} global buffers does not fit before the footer",
                self.num_global_buffers
            )));
        }
        if self.num_global_buffers == 0 {
            return Err(Error::corrupt("no global buffer, so no schema"));
        }
        Ok(())
    }

    /// The experimental form has the position of the descriptor between those of the tables, so all positions are one too late
    /// here: the first is that of the column table, which ends at the second.
    fn is_of_long_form(&self, file_size: u64) -> bool {
        let table = |count: u32| u64::from(count) * TABLE_ENTRY_LEN;
        self.version == FileVersion::V2_0
            && self.num_columns > 0
            && self.column_meta_start + table(self.num_columns) == self.cmo_start
            && self.gbo_start + table(self.num_global_buffers) + FOOTER_LEN + 8 == file_size
    }

    /// The 40 bytes of this footer.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (major, minor) = self.version.footer_numbers();
        let mut out = Vec::with_capacity(40);
        for position in [self.column_meta_start, self.cmo_start, self.gbo_start] {
            out.extend_from_slice(&position.to_le_bytes());
        }
        out.extend_from_slice(&self.num_global_buffers.to_le_bytes());
        out.extend_from_slice(&self.num_columns.to_le_bytes());
        out.extend_from_slice(&major.to_le_bytes());
        out.extend_from_slice(&minor.to_le_bytes());
        out.extend_from_slice(MAGIC);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer() -> Footer {
        Footer {
            column_meta_start: 64,
            cmo_start: 100,
            gbo_start: 116,
            num_global_buffers: 1,
            num_columns: 1,
            version: FileVersion::V2_2,
        }
    }

    #[test]
    fn round_trip() {
        assert_eq!(Footer::parse(&footer().to_bytes(), 172).unwrap(), footer());
    }

    #[test]
    fn every_flipped_section_is_refused() {
        let reject = |change: fn(&mut Footer)| {
            let mut changed = footer();
            change(&mut changed);
            Footer::parse(&changed.to_bytes(), 172).unwrap_err().to_string()
        };
        assert!(reject(|f| f.column_meta_start = 101).contains("out of order"));
        assert!(reject(|f| f.cmo_start = u64::MAX).contains("out of order"));
        assert!(reject(|f| f.gbo_start = 140).contains("out of order"));
        assert!(reject(|f| f.num_columns = u32::MAX).contains("column table"));
        assert!(reject(|f| f.num_global_buffers = u32::MAX).contains("global buffers"));
        assert!(reject(|f| f.num_global_buffers = 0).contains("no schema"));
    }

    #[test]
    fn wrong_magic_says_so() {
        let mut bytes = footer().to_bytes();
        bytes[39] = b'X';
        assert!(
            Footer::parse(&bytes, 172)
                .unwrap_err()
                .to_string()
                .contains("invalid magic")
        );
    }
}
