//! Constant pages: no value a row, only levels and perhaps one scalar (format chapter 21, 6).
//!
//! ```text
//! simple all-null   no buffers, layers [NULLABLE_ITEM]
//! scalar (2.2)      inline_value with 0 buffers or [rep, def]; or [scalar] or [scalar, rep, def]
//! levels only       [rep, def]: every slot is null at some layer
//! ```
//!
//! Raw levels are u16, one a slot; 2.2 may compress those of levels-only pages with a block codec.

use bytes::Bytes;

use glaive_codec::ByteCursor;

use super::codec::{BlockCodec, decode_levels};
use super::layers::Layers;
use super::{ColumnSink, ValueShape};
use crate::proto::lance::encodings21::ConstantLayout;
use crate::{Context, Error, FileVersion, Result};

/// How a constant page is laid out.
#[derive(Debug)]
pub struct ConstantPage {
    layers: Layers,
    form: Form,
    length: u64,
}

#[derive(Debug)]
enum Form {
    AllNull,
    Scalar {
        inline: Option<Bytes>,
        buffers: usize,
    },
    LevelsOnly {
        codec: Option<BlockCodec>,
        num_levels: u64,
    },
}

/// A constant page whose buffers were read.
#[derive(Debug)]
pub struct ConstantState {
    /// Definition levels; `None` means that every slot has the same meaning.
    levels: Option<Vec<u16>>,
    scalar: Option<Bytes>,
}

impl ConstantPage {
    /// Checks a layout against the shape, path depth and version of its column.
    pub fn parse(
        layout: &ConstantLayout,
        num_buffers: usize,
        length: u64,
        depth: usize,
        version: FileVersion,
    ) -> Result<Self> {
        let layers = Layers::parse(&layout.layers, depth)?;
        let form = if layout.inline_value.is_some() || matches!(num_buffers, 1 | 3) {
            scalar_form(layout, num_buffers, version)?
        } else if layers.is_single_nullable() {
            Form::AllNull
        } else if num_buffers == 2 {
            let codec = layout
                .def_compression
                .as_ref()
                .map(BlockCodec::parse)
                .transpose()?;
            Form::LevelsOnly {
                codec,
                num_levels: layout.num_def_values,
            }
        } else {
            return Err(Error::corrupt(format!(
                "constant page with {num_buffers} buffers"
            )));
        };
        Ok(Self { layers, form, length })
    }

    /// Reads levels and scalar from the page's buffers.
    pub fn init(&self, shape: ValueShape, buffers: &[Bytes]) -> Result<ConstantState> {
        match &self.form {
            Form::AllNull => Ok(ConstantState {
                levels: None,
                scalar: None,
            }),
            Form::LevelsOnly { codec, num_levels } => {
                let levels = self.levels(buffers.get(1), codec.as_ref(), *num_levels)?;
                if levels.as_ref().is_none_or(|l| l.contains(&0)) && shape != ValueShape::Null {
                    return Err(Error::corrupt("a slot of a page without values is not null"));
                }
                Ok(ConstantState { levels, scalar: None })
            }
            Form::Scalar {
                inline,
                buffers: count,
            } => {
                let levels = match *count {
                    2 => self.levels(buffers.get(1), None, 0)?,
                    3 => self.levels(buffers.get(2), None, 0)?,
                    _ => None,
                };
                let scalar = match inline {
                    Some(value) => inline_scalar(value, shape)?,
                    None => buffer_scalar(buffers.first(), shape)?,
                };
                Ok(ConstantState {
                    levels,
                    scalar: Some(scalar),
                })
            }
        }
    }

    /// Definition levels of the page; an empty buffer means that there are none.
    fn levels(
        &self,
        buffer: Option<&Bytes>,
        codec: Option<&BlockCodec>,
        declared: u64,
    ) -> Result<Option<Vec<u16>>> {
        let buffer = buffer.filter(|b| !b.is_empty());
        let (Some(buffer), true) = (buffer, self.layers.max_def() > 0) else {
            return Ok(None);
        };
        let count = usize::try_from(self.length).map_err(|_| Error::corrupt("page too long"))?;
        if declared != 0 && declared != self.length {
            return Err(Error::corrupt(format!(
                "{declared} levels in a page of {} rows",
                self.length
            )));
        }
        let raw = BlockCodec::raw_levels();
        let levels = decode_levels(codec.unwrap_or(&raw), buffer, count).context(|| "definition levels")?;
        self.layers.check(&levels)?;
        Ok(Some(levels))
    }

    /// Appends `rows` of the page.
    pub fn decode(
        &self,
        state: &ConstantState,
        rows: &[std::ops::Range<u64>],
        out: &mut ColumnSink,
    ) -> Result<()> {
        for range in rows {
            let n = (range.end - range.start) as usize;
            match (&self.form, &state.levels) {
                (Form::AllNull, _) => out.push_levels(&self.layers, &vec![1; n]),
                (_, Some(levels)) => {
                    let part = levels.get(range.start as usize..range.end as usize);
                    let part = part.ok_or_else(|| Error::corrupt("fewer levels than rows"))?;
                    out.push_levels(&self.layers, part);
                }
                (_, None) => out.push_valid(n),
            }
            match &state.scalar {
                Some(value) => out.values.push_repeated(value, n)?,
                None => out.values.push_default(n)?,
            }
        }
        Ok(())
    }
}

fn scalar_form(layout: &ConstantLayout, buffers: usize, version: FileVersion) -> Result<Form> {
    let inline = layout.inline_value.clone();
    match (&inline, buffers) {
        (Some(_), _) if version < FileVersion::V2_2 => Err(Error::corrupt(
            "an inline constant in a 2.1 file, which only 2.2 knows",
        )),
        (Some(_), 0 | 2) | (None, 1 | 3) => Ok(Form::Scalar { inline, buffers }),
        _ => Err(Error::corrupt(format!(
            "constant page with a scalar and {buffers} buffers"
        ))),
    }
}

/// The inline form: the value bytes of a fixed-width type.
fn inline_scalar(value: &Bytes, shape: ValueShape) -> Result<Bytes> {
    let expected = match shape {
        ValueShape::Fixed { bits } if bits.div_ceil(8) <= 32 => bits.div_ceil(8) as usize,
        _ => return Err(Error::corrupt("an inline constant of a type that has none")),
    };
    if value.len() != expected {
        return Err(Error::corrupt(format!(
            "inline constant of {} bytes, expected {expected}",
            value.len()
        )));
    }
    Ok(value.clone())
}

/// The buffer form: `u32 n; u32 len[n]; bytes`, the Arrow buffers of an array of length 1.
fn buffer_scalar(buffer: Option<&Bytes>, shape: ValueShape) -> Result<Bytes> {
    let buffer = buffer.ok_or_else(|| Error::corrupt("scalar buffer is missing"))?;
    let mut cursor = ByteCursor::new(buffer);
    let num_buffers = cursor.u32()?;
    let mut parse = || -> Result<Bytes> {
        match (shape, num_buffers) {
            (ValueShape::Fixed { bits }, 1) => {
                let length = cursor.u32()? as usize;
                let value = cursor.take(length)?;
                if length != bits.div_ceil(8) as usize {
                    return Err(Error::corrupt(format!(
                        "constant of {length} bytes in a type of {bits} bits"
                    )));
                }
                cursor.expect_end()?;
                Ok(buffer.slice_ref(value))
            }
            (ValueShape::Variable { offset_bits }, 2) => {
                let (offsets_len, data_len) = (cursor.u32()? as usize, cursor.u32()? as usize);
                let width = usize::from(offset_bits / 8);
                let mut offsets = ByteCursor::new(cursor.take(offsets_len)?);
                let value = cursor.take(data_len)?;
                cursor.expect_end()?;
                let (first, last) = match width {
                    4 => (u64::from(offsets.u32()?), u64::from(offsets.u32()?)),
                    _ => (offsets.u64()?, offsets.u64()?),
                };
                if offsets_len != 2 * width || first != 0 || last != data_len as u64 {
                    return Err(Error::corrupt("the offsets of a constant do not span its bytes"));
                }
                Ok(buffer.slice_ref(value))
            }
            _ => Err(Error::corrupt(format!(
                "constant of {num_buffers} buffers in a {shape:?} column"
            ))),
        }
    };
    parse().context(|| "scalar buffer")
}
