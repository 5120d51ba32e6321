//! The physical form of a leaf type (format chapter 22, 1).

use arrow_schema::DataType;

use crate::{Error, Result};

/// How values of a leaf look in memory and on disk, without their nulls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueShape {
    /// The null type: no value bytes at all.
    Null,
    /// Fixed width; 1 bit for booleans, whole bytes otherwise.
    Fixed {
        /// Bits of one value.
        bits: u32,
    },
    /// Offsets and bytes.
    Variable {
        /// Width of an offset: 32 or 64.
        offset_bits: u8,
    },
    /// Keys of an Arrow dictionary; the pages hold the distinct values.
    Dictionary {
        /// Bits of one key.
        key_bits: u32,
        /// Keys have a sign, so that only half of their range is used.
        signed: bool,
        /// Shape of the distinct values.
        value: Box<ValueShape>,
    },
    /// A struct without fields: no value bytes, and never null.
    EmptyStruct,
    /// A packed struct: its fields share one column and have no nulls of their own.
    Packed(Vec<ValueShape>),
    /// A fixed-size list of fixed-width items; lists may nest.
    FixedSizeList {
        /// Items of each list, the outermost first.
        dimensions: Vec<u32>,
        /// Bits of one innermost item.
        bits: u32,
    },
}

impl ValueShape {
    /// The shape of a leaf type, or "unsupported".
    pub fn of(data_type: &DataType) -> Result<Self> {
        let unsupported = || Err(Error::unsupported(format!("Unsupported data type: {data_type}")));
        Ok(match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Fixed { bits: 1 },
            DataType::Utf8 | DataType::Binary => Self::Variable { offset_bits: 32 },
            DataType::LargeUtf8 | DataType::LargeBinary => Self::Variable { offset_bits: 64 },
            DataType::FixedSizeBinary(width) => match u32::try_from(*width) {
                Ok(width @ 1..) => Self::Fixed {
                    bits: width.saturating_mul(8),
                },
                _ => return unsupported(),
            },
            DataType::FixedSizeList(item, dimension) => {
                match (u32::try_from(*dimension), Self::of(item.data_type())?) {
                    (Ok(dimension @ 1..), item) => item.repeated(dimension).ok_or_else(|| {
                        Error::unsupported(format!(
                            "Unsupported data type: {data_type} (items must have a fixed width)"
                        ))
                    })?,
                    _ => return unsupported(),
                }
            }
            DataType::Dictionary(key, value) => Self::Dictionary {
                key_bits: key.primitive_width().unwrap_or_default() as u32 * 8,
                signed: key.is_signed_integer(),
                value: Box::new(dictionary_value(data_type, value)?),
            },
            DataType::Struct(fields) if fields.is_empty() => Self::EmptyStruct,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Interval(_) => {
                return unsupported();
            }
            other => match other.primitive_width().map(u32::try_from) {
                Some(Ok(width)) => Self::Fixed { bits: width * 8 },
                _ => return unsupported(),
            },
        })
    }

    /// The shape of a packed struct, or "unsupported" for fields that cannot be packed. A struct within one is packed too,
    /// whatever its metadata say.
    pub fn packed<'a>(fields: impl Iterator<Item = &'a DataType>) -> Result<Self> {
        fields
            .map(Self::packed_field)
            .collect::<Result<_>>()
            .map(Self::Packed)
    }

    fn packed_field(data_type: &DataType) -> Result<Self> {
        let shape = match data_type {
            DataType::Struct(fields) if !fields.is_empty() => {
                Self::packed(fields.iter().map(|field| field.data_type()))?
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::Map(..) => {
                return Err(not_packed(data_type));
            }
            other => Self::of(other)?,
        };
        match &shape {
            // There is no codec for it: that of rows of fixed width stands alone.
            Self::Packed(fields) if fields.iter().all(|field| matches!(field, Self::Fixed { .. })) => {
                Err(Error::unsupported(format!(
                    "Unsupported data type: {data_type} in a packed struct: a struct of nothing but fixed-width fields cannot \
                     be packed within another; remove the metadata key lance-encoding:packed of the outer one"
                )))
            }
            Self::Packed(_) | Self::Fixed { .. } | Self::Variable { .. } | Self::FixedSizeList { .. } => {
                Ok(shape)
            }
            _ => Err(not_packed(data_type)),
        }
    }

    /// The shape of the values themselves: for dictionary keys, that of the distinct values.
    pub fn of_items(&self) -> &Self {
        match self {
            Self::Dictionary { value, .. } => value,
            other => other,
        }
    }

    /// A list of `dimension` values of this shape, if they have a fixed width and the list fits memory.
    fn repeated(self, dimension: u32) -> Option<Self> {
        let (mut dimensions, bits) = match self {
            Self::Fixed { bits } => (Vec::new(), bits),
            Self::FixedSizeList { dimensions, bits } => (dimensions, bits),
            _ => return None,
        };
        dimensions.insert(0, dimension);
        let total = dimensions
            .iter()
            .try_fold(u64::from(bits), |total, d| total.checked_mul(u64::from(*d)))?;
        u32::try_from(total).ok()?;
        Some(Self::FixedSizeList { dimensions, bits })
    }

    /// Bits of one value; `None` for variable width.
    pub fn fixed_bits(&self) -> Option<u64> {
        match self {
            Self::Null | Self::EmptyStruct => Some(0),
            Self::Fixed { bits } | Self::Dictionary { key_bits: bits, .. } => Some(u64::from(*bits)),
            Self::Packed(fields) => fields.iter().map(Self::fixed_bits).sum(),
            Self::FixedSizeList { dimensions, bits } => Some(
                dimensions
                    .iter()
                    .fold(u64::from(*bits), |total, d| total * u64::from(*d)),
            ),
            Self::Variable { .. } => None,
        }
    }
}

fn not_packed(data_type: &DataType) -> Error {
    Error::unsupported(format!(
        "Unsupported data type: {data_type} in a packed struct, which can hold numbers, strings, binaries, fixed-size lists of \
         numbers, and structs that hold more than numbers"
    ))
}

fn dictionary_value(dictionary: &DataType, value: &DataType) -> Result<ValueShape> {
    match ValueShape::of(value)? {
        shape @ (ValueShape::Fixed { .. } | ValueShape::Variable { .. }) => Ok(shape),
        _ => Err(Error::unsupported(format!("Unsupported data type: {dictionary}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn lists_of_lists_are_one_shape() {
        let list = |item, n| DataType::FixedSizeList(Arc::new(Field::new("item", item, true)), n);
        let shape = ValueShape::of(&list(list(DataType::Int16, 3), 2)).unwrap();
        assert_eq!(
            shape,
            ValueShape::FixedSizeList {
                dimensions: vec![2, 3],
                bits: 16
            }
        );
        assert_eq!(shape.fixed_bits(), Some(96));
        assert!(ValueShape::of(&list(DataType::Utf8, 3)).is_err());
        assert!(ValueShape::of(&list(list(DataType::Int64, i32::MAX), i32::MAX)).is_err());
    }
}
