//! The physical form of a leaf type (format chapter 22, 1).

use arrow_schema::DataType;

use crate::{Error, Result};

/// How values of a leaf look in memory and on disk, without their nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Interval(_) => {
                return unsupported();
            }
            other => match other.primitive_width().map(u32::try_from) {
                Some(Ok(width)) => Self::Fixed { bits: width * 8 },
                _ => return unsupported(),
            },
        })
    }

    /// Bytes of one fixed-width value of whole bytes.
    pub fn byte_width(self) -> Option<usize> {
        match self {
            Self::Fixed { bits } if bits % 8 == 0 => usize::try_from(bits / 8).ok(),
            _ => None,
        }
    }
}
