//! What the metadata of fields asks of the writer (format chapter 22, 9).
//!
//! The keys are those of the leaf field, except `structural-encoding`, which is that of the top-level field. A value that cannot
//! be understood changes nothing and gives a warning; the name of a compressor or layout that does not exist is an error.

use std::str::FromStr;
use std::sync::Arc;

use glaive_codec::general::Scheme;

use crate::leaves::LeafField;
use crate::schema::Field;
use crate::{EncodingDefaults, Error, FileVersion, Result};

/// Prefix of all keys.
const PREFIX: &str = "lance-encoding:";

/// Levels that zstd knows.
pub const ZSTD_LEVELS: std::ops::RangeInclusive<i64> = -131_072..=22;

/// How the pages of one column are to be encoded.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnOptions {
    /// Version of the page grammar.
    pub version: FileVersion,
    /// What compresses the values.
    pub compression: Compression,
    /// Run-length coding only where runs are fewer than this share of the values.
    pub rle_threshold: Option<f64>,
    /// Byte stream split before a general compressor.
    pub bss: Bss,
    /// Bytes of a chunk of variable-width values.
    pub chunk_bytes: i64,
    /// Values of a chunk at most, a power of two; half as many of variable width.
    pub max_chunk_values: usize,
    /// Values of a page from which a dictionary is tried.
    pub dict_min_values: usize,
    /// Items of a dictionary at most.
    pub dict_max_items: usize,
    /// A dictionary has at most one item for so many values.
    pub dict_divisor: usize,
    /// A dictionary page takes at most this share of the plain bytes.
    pub dict_size_ratio: Option<f64>,
    /// Bytes of all items of a dictionary at most.
    pub dict_max_bytes: usize,
    /// What compresses the items of a dictionary.
    pub dict_values: DictValues,
    /// The layout.
    pub structural: Structural,
    /// Options of the fields of a packed struct.
    pub fields: Vec<ColumnOptions>,
}

/// The compressor of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Whatever is smallest.
    Auto,
    /// Plain values.
    None,
    /// FSST, for strings and binaries.
    Fsst,
    /// A general compressor and its level.
    General(Scheme, Option<i32>),
}

/// When to split numbers into streams of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bss {
    /// If the bytes of a sample have little entropy.
    Auto,
    /// Never.
    Off,
    /// Always.
    On,
}

/// The compressor of dictionary items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DictValues {
    /// If it makes them smaller.
    Auto,
    /// Plain items.
    None,
    /// A general compressor and its level.
    General(Scheme, Option<i32>),
}

/// The layout of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structural {
    /// By the width of the values.
    Auto,
    /// Chunks, if they can hold the values.
    MiniBlock,
    /// Zipped.
    FullZip,
}

impl ColumnOptions {
    /// Without any metadata.
    pub fn new(version: FileVersion, defaults: &EncodingDefaults) -> Self {
        Self {
            version,
            compression: Compression::Auto,
            rle_threshold: None,
            bss: Bss::Auto,
            chunk_bytes: defaults.chunk_bytes,
            max_chunk_values: defaults.max_chunk_values,
            dict_min_values: defaults.dict_min_values,
            dict_max_items: defaults.dict_max_items,
            dict_divisor: defaults.dict_divisor,
            dict_size_ratio: defaults.dict_size_ratio,
            dict_max_bytes: 8 << 20,
            dict_values: defaults.dict_values,
            structural: Structural::Auto,
            fields: Vec::new(),
        }
    }

    /// The options of a column; `warnings` takes a text for each value that could not be used.
    ///
    /// # Errors
    /// Invalid input for the name of an unknown compressor or layout.
    pub fn parse(
        top: &Field,
        leaf: &LeafField,
        version: FileVersion,
        defaults: &EncodingDefaults,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let default = Self::new(version, defaults);
        let mut options = Self::of_field(&leaf.field, &leaf.path, &default, warnings)?;
        options.structural = structural(top)?;
        if leaf.field.is_packed() {
            options.fields = Self::of_children(&leaf.field, &leaf.path, &default, warnings)?;
        }
        Ok(options)
    }

    /// The fields of a packed struct, and those of structs in it.
    fn of_children(
        parent: &Field,
        path: &str,
        default: &Self,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Self>> {
        let of_child = |child: &Arc<Field>| {
            let path = format!("{path}.{}", child.name);
            let mut options = Self::of_field(child, &path, default, warnings)?;
            options.fields = Self::of_children(child, &path, default, warnings)?;
            Ok(options)
        };
        parent.children.iter().map(of_child).collect()
    }

    fn of_field(field: &Field, path: &str, default: &Self, warnings: &mut Vec<String>) -> Result<Self> {
        let mut keys = Keys {
            field,
            path,
            warnings,
        };
        Ok(Self {
            compression: compression(&mut keys)?,
            rle_threshold: keys.number("rle-threshold", "a number", |r: &f64| !r.is_nan()),
            bss: bss(&mut keys),
            chunk_bytes: chunk_bytes(&mut keys, default.version).unwrap_or(default.chunk_bytes),
            dict_divisor: keys
                .number("dict-divisor", "a positive integer", |n: &usize| *n > 0)
                .unwrap_or(default.dict_divisor),
            dict_size_ratio: keys
                .number("dict-size-ratio", "a number above 0 and up to 1", |r: &f64| {
                    *r > 0.0 && *r <= 1.0
                })
                .or(default.dict_size_ratio),
            dict_max_bytes: keys
                .number("dict-max-size", "a number of bytes", |_: &usize| true)
                .unwrap_or(default.dict_max_bytes),
            dict_values: dict_values(&mut keys, default.dict_values)?,
            ..default.clone()
        })
    }
}

/// The metadata of one field.
struct Keys<'a> {
    field: &'a Field,
    path: &'a str,
    warnings: &'a mut Vec<String>,
}

impl Keys<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.field
            .metadata
            .get(&format!("{PREFIX}{key}"))
            .map(String::as_str)
    }

    fn warn(&mut self, key: &str, what: &str) {
        let value = self.text(key).unwrap_or_default().to_owned();
        self.warnings.push(format!(
            "field '{}': metadata key '{PREFIX}{key}' has the value '{value}', which is not {what}; the default is used",
            self.path
        ));
    }

    fn number<T: FromStr>(&mut self, key: &str, what: &str, is_legal: impl Fn(&T) -> bool) -> Option<T> {
        let text = self.text(key)?;
        let number = text.trim().parse().ok().filter(is_legal);
        if number.is_none() {
            self.warn(key, what);
        }
        number
    }

    fn level(&mut self, key: &str, scheme: Scheme) -> Option<i32> {
        let is_legal = |level: &i64| scheme == Scheme::Lz4 || ZSTD_LEVELS.contains(level);
        let level = self.number(key, "a compression level (zstd: up to 22)", is_legal)?;
        i32::try_from(level).ok()
    }

    fn unknown(&self, key: &str, legal: &str) -> Error {
        Error::invalid_input(format!(
            "field '{}': metadata key '{PREFIX}{key}' has the value '{}': Unknown compression scheme; use {legal}",
            self.path,
            self.text(key).unwrap_or_default()
        ))
    }
}

fn compression(keys: &mut Keys<'_>) -> Result<Compression> {
    let scheme = match keys.text("compression") {
        None => return Ok(Compression::Auto),
        Some("none") => return Ok(Compression::None),
        Some("fsst") => return Ok(Compression::Fsst),
        Some("zstd") => Scheme::Zstd,
        Some("lz4") => Scheme::Lz4,
        Some(_) => return Err(keys.unknown("compression", "none, fsst, lz4 or zstd")),
    };
    Ok(Compression::General(
        scheme,
        keys.level("compression-level", scheme),
    ))
}

fn dict_values(keys: &mut Keys<'_>, default: DictValues) -> Result<DictValues> {
    let scheme = match keys.text("dict-values-compression") {
        None => return Ok(default),
        Some("none") => return Ok(DictValues::None),
        Some("zstd") => Scheme::Zstd,
        Some("lz4") => Scheme::Lz4,
        Some(_) => return Err(keys.unknown("dict-values-compression", "none, lz4 or zstd")),
    };
    let level = keys.level("dict-values-compression-level", scheme);
    Ok(DictValues::General(scheme, level))
}

fn bss(keys: &mut Keys<'_>) -> Bss {
    match keys.text("bss").map(str::to_ascii_lowercase).as_deref() {
        None | Some("auto") => Bss::Auto,
        Some("off") => Bss::Off,
        Some("on") => Bss::On,
        Some(_) => {
            keys.warn("bss", "off, on or auto");
            Bss::Auto
        }
    }
}

fn chunk_bytes(keys: &mut Keys<'_>, version: FileVersion) -> Option<i64> {
    let (limit, what) = match version >= FileVersion::V2_2 {
        true => (1 << 30, "a number of bytes up to 2^30"),
        false => (
            32 << 10,
            "a number of bytes below 32768, the limit of file version 2.1",
        ),
    };
    keys.number("minichunk-size", what, |bytes: &i64| *bytes < limit)
}

fn structural(top: &Field) -> Result<Structural> {
    let key = format!("{PREFIX}structural-encoding");
    let Some(text) = top.metadata.get(&key) else {
        return Ok(Structural::Auto);
    };
    match text.to_ascii_lowercase().as_str() {
        "miniblock" => Ok(Structural::MiniBlock),
        "fullzip" => Ok(Structural::FullZip),
        _ => Err(Error::invalid_input(format!(
            "field '{}': metadata key '{key}' has the value '{text}'; use miniblock or fullzip",
            top.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaves::leaf_fields;
    use crate::schema::Schema;
    use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};

    fn parse(keys: &[(&str, &str)], version: FileVersion) -> Result<(ColumnOptions, Vec<String>)> {
        let metadata = keys
            .iter()
            .map(|(k, v)| (format!("{PREFIX}{k}"), (*v).to_string()));
        let field = ArrowField::new("a", DataType::Utf8, true).with_metadata(metadata.collect());
        let schema = Schema::try_from_arrow(&ArrowSchema::new(vec![field])).unwrap();
        let leaf = leaf_fields(&schema.fields[0]).unwrap().remove(0);
        let mut warnings = Vec::new();
        let options = ColumnOptions::parse(
            &schema.fields[0],
            &leaf,
            version,
            &EncodingDefaults::default(),
            &mut warnings,
        )?;
        Ok((options, warnings))
    }

    #[test]
    fn values_act_or_warn() {
        let legal = [
            ("compression", "zstd"),
            ("compression-level", "-3"),
            ("rle-threshold", "0.5"),
            ("bss", "ON"),
            ("minichunk-size", "-5"),
            ("dict-divisor", "7"),
            ("dict-size-ratio", "1"),
            ("dict-max-size", "10"),
            ("dict-values-compression", "none"),
            ("structural-encoding", "FullZip"),
        ];
        let (options, warnings) = parse(&legal, FileVersion::V2_2).unwrap();
        assert_eq!(warnings, [""; 0]);
        assert_eq!(options.compression, Compression::General(Scheme::Zstd, Some(-3)));
        assert_eq!((options.bss, options.chunk_bytes), (Bss::On, -5));
        assert_eq!(
            (
                options.dict_divisor,
                options.dict_size_ratio,
                options.dict_max_bytes
            ),
            (7, Some(1.0), 10)
        );
        assert_eq!(options.structural, Structural::FullZip);
    }

    #[test]
    fn what_cannot_be_used_is_the_default() {
        for (key, value) in [
            ("rle-threshold", "some"),
            ("bss", "maybe"),
            ("minichunk-size", "4k"),
            ("dict-divisor", "0"),
            ("dict-size-ratio", "1.5"),
            ("dict-max-size", "-1"),
        ] {
            let (options, warnings) = parse(&[(key, value)], FileVersion::V2_2).unwrap();
            assert_eq!(
                options,
                ColumnOptions::new(FileVersion::V2_2, &EncodingDefaults::default())
            );
            let [warning] = warnings.as_slice() else {
                panic!("{warnings:?}")
            };
            assert!(
                warning.contains("field 'a'") && warning.contains(key) && warning.contains(value),
                "{warning}"
            );
        }
        let level = [("compression", "zstd"), ("compression-level", "99")];
        let (options, warnings) = parse(&level, FileVersion::V2_2).unwrap();
        assert_eq!(options.compression, Compression::General(Scheme::Zstd, None));
        assert_eq!(warnings.len(), 1);
        let size = [("minichunk-size", "40000")];
        assert_eq!(parse(&size, FileVersion::V2_1).unwrap().1.len(), 1);
        assert_eq!(parse(&size, FileVersion::V2_2).unwrap().1.len(), 0);
    }

    #[test]
    fn unknown_names_are_errors() {
        for (key, value) in [
            ("compression", "ZSTD"),
            ("dict-values-compression", "fsst"),
            ("structural-encoding", "sparse"),
        ] {
            let error = parse(&[(key, value)], FileVersion::V2_2).unwrap_err();
            assert!(
                error.to_string().contains(key) && error.to_string().contains(value),
                "{error}"
            );
        }
    }
}
