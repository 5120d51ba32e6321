//! Versions of the data file format (format chapter 10, 3.1).
//!
//! One version has three spellings: the string of a manifest or of a caller (`"2.1"`), the numbers in the footer of
//! a data file, and the numbers beside the file's name in a manifest. They differ for 2.0 only, whose footer says 0.3.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Version of the data file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileVersion {
    /// The first format: row groups and a page table.
    V0_1,
    /// The first columnar format: one encoding tree a page.
    V2_0,
    /// Structural encodings: repetition and definition levels, mini-blocks.
    V2_1,
    /// 2.1 with maps, fixed-size lists of structs and more codecs. The default.
    V2_2,
    /// Unstable successor of 2.2.
    V2_3,
}

impl FileVersion {
    /// What a new table gets when the caller names no version.
    pub const DEFAULT: Self = Self::V2_2;

    /// The canonical string, the only one that may stand in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1",
            Self::V2_0 => "2.0",
            Self::V2_1 => "2.1",
            Self::V2_2 => "2.2",
            Self::V2_3 => "2.3",
        }
    }

    /// Parses the canonical string of a manifest; aliases are an error there.
    pub fn from_manifest_str(text: &str) -> Result<Self> {
        match text {
            "0.1" => Ok(Self::V0_1),
            "2.0" => Ok(Self::V2_0),
            "2.1" => Ok(Self::V2_1),
            "2.2" => Ok(Self::V2_2),
            "2.3" => Ok(Self::V2_3),
            _ => Err(Error::corrupt(format!(
                "unknown data file version '{text}' in the manifest"
            ))),
        }
    }

    /// Parses the major and minor number of a data file's footer.
    pub fn from_footer(major: u16, minor: u16) -> Result<Self> {
        Self::from_numbers(major.into(), minor.into())
            .ok_or_else(|| {
                Error::unsupported(format!(
                    "data file version ({major}, {minor}) in the footer is unknown; known are 2.0, 2.1 and 2.2. A newer version of \
                     this package may read the file, or write it as version 2.2"
                ))
            })
    }

    /// Parses `file_major_version` and `file_minor_version` of a manifest.
    pub fn from_manifest_numbers(major: u32, minor: u32) -> Result<Self> {
        Self::from_numbers(major, minor).ok_or_else(|| {
            Error::corrupt(format!(
                "unknown data file version ({major}, {minor}) in the manifest"
            ))
        })
    }

    fn from_numbers(major: u32, minor: u32) -> Option<Self> {
        match (major, minor) {
            (0, 0..=2) => Some(Self::V0_1),
            (0, 3) | (2, 0) => Some(Self::V2_0),
            (2, 1) => Some(Self::V2_1),
            (2, 2) => Some(Self::V2_2),
            (2, 3) => Some(Self::V2_3),
            _ => None,
        }
    }

    /// The numbers that a writer puts in the footer.
    pub const fn footer_numbers(self) -> (u16, u16) {
        match self {
            Self::V0_1 => (0, 2),
            Self::V2_0 => (0, 3),
            Self::V2_1 => (2, 1),
            Self::V2_2 => (2, 2),
            Self::V2_3 => (2, 3),
        }
    }

    /// The numbers that a writer puts beside the file's path in a manifest.
    pub const fn manifest_numbers(self) -> (u32, u32) {
        match self {
            Self::V0_1 => (0, 2),
            Self::V2_0 => (2, 0),
            Self::V2_1 => (2, 1),
            Self::V2_2 => (2, 2),
            Self::V2_3 => (2, 3),
        }
    }

    /// Whether it is the first format, whose files cannot be mixed with others in one table.
    pub const fn is_legacy(self) -> bool {
        matches!(self, Self::V0_1)
    }

    /// Fails for versions whose files this engine does not read.
    pub fn check_readable(self) -> Result<()> {
        match self {
            Self::V2_0 | Self::V2_1 | Self::V2_2 => Ok(()),
            Self::V0_1 => Err(Error::unsupported(
                "a legacy v1 file (data file version 0.1) cannot be read",
            )),
            Self::V2_3 => Err(Error::unsupported(
                "data file version 2.3 is unstable and cannot be read; use version 2.2",
            )),
        }
    }

    /// Fails for versions that this engine does not write.
    pub fn check_writable(self) -> Result<()> {
        match self {
            Self::V2_0 | Self::V2_1 | Self::V2_2 => Ok(()),
            other => Err(Error::unsupported(format!(
                "writing data file version {other} is not supported; use data_storage_version \"2.2\", \"2.1\" or \"2.0\""
            ))),
        }
    }
}

impl Default for FileVersion {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parses what a caller may name: a canonical string or an alias (`legacy`, `0.3`, `stable`, `next`).
impl FromStr for FileVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "0.1" | "legacy" => Ok(Self::V0_1),
            "2.0" | "0.3" => Ok(Self::V2_0),
            "2.1" => Ok(Self::V2_1),
            "2.2" | "stable" => Ok(Self::V2_2),
            "2.3" | "next" => Ok(Self::V2_3),
            _ => Err(Error::invalid_input(format!(
                "Unknown Lance storage version: {text}; known are 0.1 (legacy), 2.0, 2.1, 2.2 (stable), 2.3 (next)"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const ALL: [FileVersion; 5] = [
        FileVersion::V0_1,
        FileVersion::V2_0,
        FileVersion::V2_1,
        FileVersion::V2_2,
        FileVersion::V2_3,
    ];

    #[test]
    fn every_spelling_reads_back() {
        for version in ALL {
            let (major, minor) = version.footer_numbers();
            assert_eq!(FileVersion::from_footer(major, minor).unwrap(), version);
            let (major, minor) = version.manifest_numbers();
            assert_eq!(FileVersion::from_manifest_numbers(major, minor).unwrap(), version);
            assert_eq!(FileVersion::from_manifest_str(version.as_str()).unwrap(), version);
            assert_eq!(version.as_str().parse::<FileVersion>().unwrap(), version);
        }
    }

    #[test]
    fn aliases_are_for_callers_only() {
        for (alias, version) in [
            ("legacy", ALL[0]),
            ("0.3", ALL[1]),
            ("stable", ALL[3]),
            ("next", ALL[4]),
        ] {
            assert_eq!(alias.parse::<FileVersion>().unwrap(), version);
            assert_eq!(
                FileVersion::from_manifest_str(alias).unwrap_err().kind(),
                ErrorKind::Corrupt
            );
        }
        let error = "9.9".parse::<FileVersion>().unwrap_err();
        assert!(error.to_string().contains("Unknown Lance storage version: 9.9"));
    }

    #[test]
    fn old_numbers_and_unknown_numbers() {
        assert_eq!(
            FileVersion::from_manifest_numbers(0, 0).unwrap(),
            FileVersion::V0_1
        );
        assert_eq!(
            FileVersion::from_manifest_numbers(0, 3).unwrap(),
            FileVersion::V2_0
        );
        assert_eq!(FileVersion::from_footer(2, 0).unwrap(), FileVersion::V2_0);
        assert!(FileVersion::from_footer(3, 0).is_err());
        assert!(FileVersion::from_manifest_numbers(2, 4).is_err());
    }

    #[test]
    fn writable_versions() {
        for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
            assert!(version.check_writable().is_ok() && version.check_readable().is_ok());
        }
        for version in [FileVersion::V0_1, FileVersion::V2_3] {
            let error = version.check_writable().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("2.2"));
        }
    }
}
