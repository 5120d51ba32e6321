//! Defaults of the writer that the environment may change (format chapter 22, 9, and chapter 20, 12).
//!
//! They are read once, when a write begins. The metadata of a field go before them. Values are written as other writers take
//! them: digits without spaces. One that cannot be used gives a warning, and the default holds.

use std::ffi::OsString;
use std::str::FromStr;

use glaive_codec::general::Scheme;

use crate::v2_1::encode::ZSTD_LEVELS;

pub use crate::v2_1::encode::DictValues;

/// Values of a chunk at most, whatever is asked for.
const MOST_CHUNK_VALUES: usize = 32_768;

/// How pages are encoded where nothing else is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodingDefaults {
    /// `LANCE_FILE_WRITER_MAX_PAGE_BYTES`: bytes of a page at most; version 2.0 only.
    pub max_page_bytes: u64,
    /// `LANCE_DICT_ENCODING_THRESHOLD`: strings of a page from which a dictionary is tried, and distinct ones below which it is
    /// kept; version 2.0 only.
    pub dict_threshold: usize,
    /// `LANCE_MINIBLOCK_MAX_VALUES`: values of a chunk at most, a power of two from 2 to 32,768; strings take half of it.
    pub max_chunk_values: usize,
    /// `LANCE_BINARY_MINIBLOCK_CHUNK_SIZE`: bytes that a chunk of strings stays below, if two fit.
    pub chunk_bytes: i64,
    /// `LANCE_ENCODING_DICT_TOO_SMALL`: values of a page from which a dictionary is tried.
    pub dict_min_values: usize,
    /// `LANCE_ENCODING_DICT_DIVISOR`: a dictionary has at most one item for so many values.
    pub dict_divisor: usize,
    /// `LANCE_ENCODING_DICT_MAX_CARDINALITY`: items of a dictionary at most.
    pub dict_max_items: usize,
    /// `LANCE_ENCODING_DICT_SIZE_RATIO`: a dictionary page takes at most this share of the plain bytes. `None`: less than any
    /// other encoding.
    pub dict_size_ratio: Option<f64>,
    /// `LANCE_ENCODING_DICT_VALUES_COMPRESSION` and `.._LEVEL`: what compresses the items of a dictionary.
    pub dict_values: DictValues,
}

impl Default for EncodingDefaults {
    fn default() -> Self {
        Self {
            max_page_bytes: 32 << 20,
            dict_threshold: 100,
            max_chunk_values: 4096,
            chunk_bytes: 4096,
            dict_min_values: 100,
            dict_divisor: 2,
            dict_max_items: 100_000,
            dict_size_ratio: None,
            dict_values: DictValues::Auto,
        }
    }
}

impl EncodingDefaults {
    /// The defaults of this process, and a text for each variable that cannot be used.
    pub fn from_environment() -> (Self, Vec<String>) {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> (Self, Vec<String>) {
        let mut read = Variables {
            variable,
            warnings: Vec::new(),
        };
        let mut out = Self::default();
        let positive = "a positive integer";
        let whole = "an integer of 0 or more";
        read.number(
            "LANCE_FILE_WRITER_MAX_PAGE_BYTES",
            positive,
            &mut out.max_page_bytes,
            |n| *n > 0,
        );
        read.number(
            "LANCE_DICT_ENCODING_THRESHOLD",
            whole,
            &mut out.dict_threshold,
            |_| true,
        );
        read.number(
            "LANCE_MINIBLOCK_MAX_VALUES",
            whole,
            &mut out.max_chunk_values,
            |_| true,
        );
        out.max_chunk_values = 1 << out.max_chunk_values.clamp(2, MOST_CHUNK_VALUES).ilog2();
        read.number(
            "LANCE_BINARY_MINIBLOCK_CHUNK_SIZE",
            "an integer",
            &mut out.chunk_bytes,
            |_| true,
        );
        read.number(
            "LANCE_ENCODING_DICT_TOO_SMALL",
            whole,
            &mut out.dict_min_values,
            |_| true,
        );
        read.number(
            "LANCE_ENCODING_DICT_DIVISOR",
            positive,
            &mut out.dict_divisor,
            |n| *n > 0,
        );
        read.number(
            "LANCE_ENCODING_DICT_MAX_CARDINALITY",
            whole,
            &mut out.dict_max_items,
            |_| true,
        );
        let mut ratio = f64::NAN;
        read.number(
            "LANCE_ENCODING_DICT_SIZE_RATIO",
            "a number above 0 and up to 1",
            &mut ratio,
            |r: &f64| *r > 0.0 && *r <= 1.0,
        );
        out.dict_size_ratio = Some(ratio).filter(|ratio| !ratio.is_nan());
        out.dict_values = read.dict_values();
        (out, read.warnings)
    }
}

struct Variables<F> {
    variable: F,
    warnings: Vec<String>,
}

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    fn warn(&mut self, name: &str, value: &str, what: &str) {
        self.warnings.push(format!(
            "environment variable {name} has the value '{value}', which is not {what}; the default is used"
        ));
    }

    /// Stores a usable number in `target`.
    fn number<T: FromStr>(&mut self, name: &str, what: &str, target: &mut T, is_legal: impl Fn(&T) -> bool) {
        let Some(value) = (self.variable)(name) else {
            return;
        };
        let text = value.to_string_lossy();
        match text.parse().ok().filter(is_legal) {
            Some(number) => *target = number,
            None => self.warn(name, &text, what),
        }
    }

    fn dict_values(&mut self) -> DictValues {
        const NAME: &str = "LANCE_ENCODING_DICT_VALUES_COMPRESSION";
        let mut level = i64::MAX;
        let unset = level;
        self.number(
            "LANCE_ENCODING_DICT_VALUES_COMPRESSION_LEVEL",
            "a compression level",
            &mut level,
            |level| i32::try_from(*level).is_ok(),
        );
        // Levels beyond those of zstd mean the last one.
        let level = Some(level).filter(|level| *level != unset);
        let level = level.map(|level| level.clamp(*ZSTD_LEVELS.start(), *ZSTD_LEVELS.end()) as i32);
        let Some(value) = (self.variable)(NAME) else {
            return DictValues::Auto;
        };
        match value.to_string_lossy().as_ref() {
            "none" => DictValues::None,
            "lz4" => DictValues::General(Scheme::Lz4, level),
            "zstd" => DictValues::General(Scheme::Zstd, level),
            other => {
                self.warn(NAME, other, "none, lz4 or zstd");
                DictValues::Auto
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (EncodingDefaults, Vec<String>) {
        EncodingDefaults::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(read(&[]), (EncodingDefaults::default(), Vec::new()));
    }

    #[test]
    fn every_variable_acts() {
        let (defaults, warnings) = read(&[
            ("LANCE_FILE_WRITER_MAX_PAGE_BYTES", "+1000"),
            ("LANCE_DICT_ENCODING_THRESHOLD", "0"),
            ("LANCE_MINIBLOCK_MAX_VALUES", "100"),
            ("LANCE_BINARY_MINIBLOCK_CHUNK_SIZE", "-1"),
            ("LANCE_ENCODING_DICT_TOO_SMALL", "10"),
            ("LANCE_ENCODING_DICT_DIVISOR", "7"),
            ("LANCE_ENCODING_DICT_MAX_CARDINALITY", "0"),
            ("LANCE_ENCODING_DICT_SIZE_RATIO", "0.25"),
            ("LANCE_ENCODING_DICT_VALUES_COMPRESSION", "zstd"),
            ("LANCE_ENCODING_DICT_VALUES_COMPRESSION_LEVEL", "-3"),
        ]);
        assert_eq!(warnings, [""; 0]);
        let expected = EncodingDefaults {
            max_page_bytes: 1000,
            dict_threshold: 0,
            max_chunk_values: 64,
            chunk_bytes: -1,
            dict_min_values: 10,
            dict_divisor: 7,
            dict_max_items: 0,
            dict_size_ratio: Some(0.25),
            dict_values: DictValues::General(Scheme::Zstd, Some(-3)),
        };
        assert_eq!(defaults, expected);
    }

    #[test]
    fn chunks_have_a_power_of_two_of_values() {
        for (text, values) in [
            ("0", 2),
            ("1", 2),
            ("3", 2),
            ("4", 4),
            ("40000", 32_768),
            ("99999", 32_768),
        ] {
            assert_eq!(
                read(&[("LANCE_MINIBLOCK_MAX_VALUES", text)]).0.max_chunk_values,
                values
            );
        }
    }

    #[test]
    fn what_cannot_be_used_is_the_default() {
        for (name, values) in [
            ("LANCE_FILE_WRITER_MAX_PAGE_BYTES", &["0", "-1", "", "1e3"][..]),
            ("LANCE_DICT_ENCODING_THRESHOLD", &["-1", " 10 "]),
            ("LANCE_MINIBLOCK_MAX_VALUES", &["-1", "64.0"]),
            ("LANCE_BINARY_MINIBLOCK_CHUNK_SIZE", &["4k", ""]),
            ("LANCE_ENCODING_DICT_TOO_SMALL", &["abc"]),
            ("LANCE_ENCODING_DICT_DIVISOR", &["0", "2.5"]),
            ("LANCE_ENCODING_DICT_MAX_CARDINALITY", &["-1"]),
            ("LANCE_ENCODING_DICT_SIZE_RATIO", &["0", "1.5", "nan", "inf"]),
            ("LANCE_ENCODING_DICT_VALUES_COMPRESSION", &["ZSTD", "fsst", ""]),
            (
                "LANCE_ENCODING_DICT_VALUES_COMPRESSION_LEVEL",
                &["high", "1.5", "99999999999"],
            ),
        ] {
            for value in values {
                let (defaults, warnings) = read(&[(name, value)]);
                assert_eq!(defaults, EncodingDefaults::default(), "{name}={value}");
                let [warning] = warnings.as_slice() else {
                    panic!("{warnings:?}")
                };
                assert!(
                    warning.contains(name) && warning.contains(&format!("'{value}'")),
                    "{warning}"
                );
            }
        }
    }
}
