//! Logical types: the one string a field that names its Arrow type (format chapter 10, 7).
//!
//! A string describes one node of the schema tree. Structs, lists, maps and fixed-size lists of structs take their
//! children from the tree; a fixed-size list of anything else and a dictionary hold their item and value type inside
//! the string, so they are leaves of the tree:
//!
//! ```text
//! int64                                  a leaf
//! timestamp:ms:+08:00                    a leaf; the zone may contain ':'
//! list.struct                            a list; its one child is the item, a struct
//! fixed_size_list:float:4                a leaf of four floats a row
//! fixed_size_list:fixed_size_list:int32:2:3    three lists of two
//! dict:string:int8:false                 value type first
//! ```

use std::fmt;

use arrow_schema::{DataType, Field as ArrowField, TimeUnit};

use crate::{Error, Result};

/// Metadata key of an Arrow extension name.
pub const EXTENSION_NAME: &str = "ARROW:extension:name";
/// Metadata key of the parameters of an Arrow extension type.
pub const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
/// Extension name of 16-bit brain floats, stored as two bytes.
pub const BFLOAT16: &str = "lance.bfloat16";

/// Fixed-size lists nested in one string: more than any array has, and few enough for recursion.
const MAX_NESTING: usize = 32;

/// The type of one node of a schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogicalType {
    /// A type without parameters in the tree: numbers, strings, binaries, temporals, decimals, null.
    Leaf(DataType),
    /// JSON documents in their binary form; a large binary in Arrow.
    Json,
    /// The former name of a blob column; a large binary in Arrow.
    Blob,
    /// Two-byte floats. Only as the item of a fixed-size list; alone they are a fixed-size binary with an extension.
    BFloat16,
    /// A struct of the child fields.
    Struct,
    /// A list of its one child.
    List {
        /// 64-bit offsets.
        large: bool,
        /// The item is a struct; the string says so.
        of_structs: bool,
    },
    /// A map; its one child is the `entries` struct.
    Map,
    /// `dimension` items a row. A struct item is the one child; any other item has no node of its own.
    FixedSizeList {
        /// Type of the item.
        item: Box<LogicalType>,
        /// Items a row, at least 1.
        dimension: i32,
    },
    /// Indices into a dictionary of values.
    Dictionary {
        /// Type of the values: a leaf whose string has no `:`.
        value: DataType,
        /// Type of the indices: an integer.
        index: DataType,
    },
}

impl LogicalType {
    /// Number of children that a field of this type must have; `None` for any number.
    pub fn child_count(&self) -> Option<usize> {
        match self {
            Self::Struct => None,
            Self::List { .. } | Self::Map => Some(1),
            Self::FixedSizeList { item, .. } if **item == Self::Struct => Some(1),
            _ => Some(0),
        }
    }

    /// The logical type of an Arrow field.
    ///
    /// # Errors
    /// `Unsupported data type: ...` for types that the format has no string for.
    pub fn try_from_arrow(field: &ArrowField) -> Result<Self> {
        if is_json(field) {
            return Ok(Self::Json);
        }
        match field.data_type() {
            DataType::Struct(_) => Ok(Self::Struct),
            DataType::List(item) => Ok(Self::List {
                large: false,
                of_structs: is_struct(item),
            }),
            DataType::LargeList(item) => Ok(Self::List {
                large: true,
                of_structs: is_struct(item),
            }),
            DataType::Map(_, false) => Ok(Self::Map),
            DataType::FixedSizeList(item, dimension) => fixed_size_list(item, *dimension),
            DataType::Dictionary(index, value) => dictionary(index, value),
            DataType::Utf8View => Ok(Self::Leaf(DataType::Utf8)),
            DataType::BinaryView => Ok(Self::Leaf(DataType::Binary)),
            other if leaf_name(other).is_some() => Ok(Self::Leaf(other.clone())),
            other => Err(unsupported(other)),
        }
    }

    /// Parses a stored string.
    ///
    /// # Errors
    /// Corrupt, naming the string, if no version of the format has such a type.
    pub fn parse(text: &str) -> Result<Self> {
        parse(text, 0).ok_or_else(|| Error::corrupt(format!("unknown logical type '{text}'")))
    }

    /// The Arrow type of a field that needs no child. `None` for the others.
    pub fn childless_data_type(&self) -> Option<DataType> {
        match self {
            Self::Leaf(data_type) => Some(data_type.clone()),
            Self::Json | Self::Blob => Some(DataType::LargeBinary),
            Self::BFloat16 => Some(DataType::FixedSizeBinary(2)),
            Self::Dictionary { value, index } => Some(DataType::Dictionary(
                Box::new(index.clone()),
                Box::new(value.clone()),
            )),
            Self::FixedSizeList { item, dimension } => {
                let mut field = ArrowField::new("item", item.childless_data_type()?, true);
                if **item == Self::BFloat16 {
                    field.set_metadata([(EXTENSION_NAME.to_string(), BFLOAT16.to_string())].into());
                }
                Some(DataType::FixedSizeList(field.into(), *dimension))
            }
            Self::Struct | Self::List { .. } | Self::Map => None,
        }
    }
}

impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(data_type) => f.write_str(&leaf_name(data_type).unwrap_or_default()),
            Self::Json => f.write_str("json"),
            Self::Blob => f.write_str("blob"),
            Self::BFloat16 => f.write_str(BFLOAT16),
            Self::Struct => f.write_str("struct"),
            Self::List { large, of_structs } => {
                let prefix = if *large { "large_" } else { "" };
                let suffix = if *of_structs { ".struct" } else { "" };
                write!(f, "{prefix}list{suffix}")
            }
            Self::Map => f.write_str("map"),
            Self::FixedSizeList { item, dimension } => write!(f, "fixed_size_list:{item}:{dimension}"),
            Self::Dictionary { value, index } => {
                let name = |data_type| leaf_name(data_type).unwrap_or_default();
                write!(f, "dict:{}:{}:false", name(value), name(index))
            }
        }
    }
}

fn unsupported(data_type: &DataType) -> Error {
    Error::unsupported(format!("Unsupported data type: {data_type}"))
}

fn is_struct(field: &ArrowField) -> bool {
    matches!(field.data_type(), DataType::Struct(_))
}

/// JSON arrives as text (`arrow.json`) or already in the binary form (`lance.json`).
fn is_json(field: &ArrowField) -> bool {
    match field.metadata().get(EXTENSION_NAME).map(String::as_str) {
        Some("arrow.json") => {
            matches!(
                field.data_type(),
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            )
        }
        Some("lance.json") => *field.data_type() == DataType::LargeBinary,
        _ => false,
    }
}

fn fixed_size_list(item: &ArrowField, dimension: i32) -> Result<LogicalType> {
    if dimension < 1 {
        return Err(Error::unsupported(format!(
            "Unsupported data type: fixed-size list of {dimension} items; at least 1 is needed"
        )));
    }
    let is_bfloat16 = item
        .metadata()
        .get(EXTENSION_NAME)
        .is_some_and(|name| name == BFLOAT16);
    let item = match item.data_type() {
        DataType::FixedSizeBinary(2) if is_bfloat16 => LogicalType::BFloat16,
        _ => LogicalType::try_from_arrow(item)?,
    };
    let list = LogicalType::FixedSizeList {
        item: Box::new(item),
        dimension,
    };
    match &list {
        LogicalType::FixedSizeList { item, .. } if !is_fixed_size_item(item) => {
            Err(Error::unsupported(format!("Unsupported data type: {list}")))
        }
        _ => Ok(list),
    }
}

/// A fixed-size list holds leaves, fixed-size lists of leaves, or structs.
fn is_fixed_size_item(item: &LogicalType) -> bool {
    match item {
        LogicalType::List { .. } | LogicalType::Map => false,
        LogicalType::FixedSizeList { item, .. } => **item != LogicalType::Struct,
        _ => true,
    }
}

fn dictionary(index: &DataType, value: &DataType) -> Result<LogicalType> {
    let value = match value {
        DataType::Utf8View => &DataType::Utf8,
        DataType::BinaryView => &DataType::Binary,
        other => other,
    };
    match leaf_name(value) {
        Some(name) if !name.contains(':') && index.is_dictionary_key_type() => Ok(LogicalType::Dictionary {
            value: value.clone(),
            index: index.clone(),
        }),
        _ => Err(Error::unsupported(format!(
            "Unsupported data type: dictionary of {value} with {index} indices"
        ))),
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn parse_unit(text: &str) -> Option<TimeUnit> {
    match text {
        "s" => Some(TimeUnit::Second),
        "ms" => Some(TimeUnit::Millisecond),
        "us" => Some(TimeUnit::Microsecond),
        "ns" => Some(TimeUnit::Nanosecond),
        _ => None,
    }
}

/// The string of a leaf; `None` if the format has none for the type.
fn leaf_name(data_type: &DataType) -> Option<String> {
    if let Some((name, _)) = PLAIN_LEAVES.iter().find(|(_, leaf)| leaf == data_type) {
        return Some((*name).to_string());
    }
    match data_type {
        DataType::FixedSizeBinary(width) => Some(format!("fixed_size_binary:{width}")),
        DataType::Decimal128(precision, scale) => Some(format!("decimal:128:{precision}:{scale}")),
        DataType::Decimal256(precision, scale) => Some(format!("decimal:256:{precision}:{scale}")),
        DataType::Timestamp(unit, zone) => Some(format!(
            "timestamp:{}:{}",
            unit_name(*unit),
            zone.as_deref().unwrap_or("-")
        )),
        _ => None,
    }
}

/// Leaves whose string has no parameter.
const PLAIN_LEAVES: [(&str, DataType); 27] = [
    ("null", DataType::Null),
    ("bool", DataType::Boolean),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("halffloat", DataType::Float16),
    ("float", DataType::Float32),
    ("double", DataType::Float64),
    ("string", DataType::Utf8),
    ("large_string", DataType::LargeUtf8),
    ("binary", DataType::Binary),
    ("large_binary", DataType::LargeBinary),
    ("date32:day", DataType::Date32),
    ("date64:ms", DataType::Date64),
    ("time32:s", DataType::Time32(TimeUnit::Second)),
    ("time32:ms", DataType::Time32(TimeUnit::Millisecond)),
    ("time64:us", DataType::Time64(TimeUnit::Microsecond)),
    ("time64:ns", DataType::Time64(TimeUnit::Nanosecond)),
    ("duration:s", DataType::Duration(TimeUnit::Second)),
    ("duration:ms", DataType::Duration(TimeUnit::Millisecond)),
    ("duration:us", DataType::Duration(TimeUnit::Microsecond)),
    ("duration:ns", DataType::Duration(TimeUnit::Nanosecond)),
];

fn parse(text: &str, depth: usize) -> Option<LogicalType> {
    if depth > MAX_NESTING {
        return None;
    }
    if let Some(data_type) = parse_leaf(text) {
        return Some(LogicalType::Leaf(data_type));
    }
    match text {
        "json" => Some(LogicalType::Json),
        "blob" => Some(LogicalType::Blob),
        "struct" => Some(LogicalType::Struct),
        "map" => Some(LogicalType::Map),
        "list" => Some(LogicalType::List {
            large: false,
            of_structs: false,
        }),
        "list.struct" => Some(LogicalType::List {
            large: false,
            of_structs: true,
        }),
        "large_list" => Some(LogicalType::List {
            large: true,
            of_structs: false,
        }),
        "large_list.struct" => Some(LogicalType::List {
            large: true,
            of_structs: true,
        }),
        BFLOAT16 if depth > 0 => Some(LogicalType::BFloat16),
        _ => match text.split_once(':')? {
            ("fixed_size_list", rest) => parse_fixed_size_list(rest, depth),
            ("dict", rest) => parse_dictionary(rest),
            _ => None,
        },
    }
}

/// The last part is the dimension, everything before it the item type.
fn parse_fixed_size_list(rest: &str, depth: usize) -> Option<LogicalType> {
    let (item, dimension) = rest.rsplit_once(':')?;
    let dimension = dimension.parse().ok().filter(|n: &i32| *n >= 1)?;
    let item = parse(item, depth + 1).filter(is_fixed_size_item)?;
    Some(LogicalType::FixedSizeList {
        item: Box::new(item),
        dimension,
    })
}

fn parse_dictionary(rest: &str) -> Option<LogicalType> {
    let mut parts = rest.split(':');
    let (value, index, _ordered) = (parts.next()?, parts.next()?, parts.next()?);
    let index = parse_leaf(index).filter(DataType::is_dictionary_key_type)?;
    match parts.next() {
        None => Some(LogicalType::Dictionary {
            value: parse_leaf(value)?,
            index,
        }),
        Some(_) => None,
    }
}

fn parse_leaf(text: &str) -> Option<DataType> {
    if let Some((_, data_type)) = PLAIN_LEAVES.iter().find(|(name, _)| *name == text) {
        return Some(data_type.clone());
    }
    match text.split_once(':')? {
        ("fixed_size_binary", width) => {
            Some(DataType::FixedSizeBinary(width.parse().ok().filter(|n| *n >= 0)?))
        }
        ("decimal", rest) => parse_decimal(rest),
        ("timestamp", rest) => {
            let (unit, zone) = rest.split_once(':')?;
            let zone = (zone != "-").then(|| zone.into());
            Some(DataType::Timestamp(parse_unit(unit)?, zone))
        }
        _ => None,
    }
}

fn parse_decimal(rest: &str) -> Option<DataType> {
    let mut parts = rest.split(':');
    let (bits, precision, scale) = (parts.next()?, parts.next()?, parts.next()?);
    let (precision, scale): (u8, i8) = (precision.parse().ok()?, scale.parse().ok()?);
    match (bits, precision, parts.next()) {
        ("128", 1..=38, None) => Some(DataType::Decimal128(precision, scale)),
        ("256", 1..=76, None) => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}
