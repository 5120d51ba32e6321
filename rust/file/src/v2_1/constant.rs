//! Constant pages: no value a row, only levels and perhaps one scalar (format chapter 21, 6).
//!
//! ```text
//! simple all-null   no buffers, layers [NULLABLE_ITEM]
//! scalar (2.2)      inline_value with 0 buffers or [rep, def]; or [scalar] or [scalar, rep, def]
//! levels only       [rep, def]: every slot is null at some layer
//! ```
//!
//! Raw levels are u16, one a slot; 2.2 may compress those of levels-only pages with a block codec.

use std::ops::Range;

use bytes::Bytes;
use glaive_codec::ByteCursor;

use super::codec::BlockCodec;
use super::layers::{ColumnPath, Layers};
use super::levels::SlotLevels;
use super::{ColumnSink, ValueShape};
use crate::proto::lance::encodings21::{CompressiveEncoding, ConstantLayout, RepDefLayer};
use crate::{Context, Error, FileVersion, Result};

/// How a constant page is laid out.
#[derive(Debug)]
pub struct ConstantPage {
    layers: Layers,
    form: Form,
    /// Rows, or slots below a fixed-size list of structs.
    length: u64,
}

#[derive(Debug)]
enum Form {
    AllNull,
    EmptyStructs,
    Scalar { inline: Option<Bytes>, buffers: usize },
    LevelsOnly { rep: LevelStream, def: LevelStream },
}

/// How a stream of levels is stored: raw without a codec.
#[derive(Debug, Default)]
struct LevelStream {
    codec: Option<BlockCodec>,
    /// Number of levels; 0 = follows from the size of raw levels.
    count: u64,
}

/// A constant page whose buffers were read.
#[derive(Debug)]
pub struct ConstantState {
    levels: SlotLevels,
    scalar: Option<Bytes>,
}

impl ConstantPage {
    /// Checks a layout against the path and version of its column.
    pub fn parse(
        layout: &ConstantLayout,
        num_buffers: usize,
        length: u64,
        path: &ColumnPath,
        version: FileVersion,
    ) -> Result<Self> {
        let layers = Layers::parse(&layout.layers, path)?;
        let form = if layout.inline_value.is_some() || matches!(num_buffers, 1 | 3) {
            scalar_form(layout, num_buffers, version)?
        } else if layers.is_single_nullable() {
            Form::AllNull
        } else if num_buffers == 2 {
            let stream = |codec: &Option<CompressiveEncoding>, count| {
                Ok::<_, Error>(LevelStream {
                    codec: codec.as_ref().map(BlockCodec::parse).transpose()?,
                    count,
                })
            };
            let rep = stream(&layout.rep_compression, layout.num_rep_values)?;
            let def = stream(&layout.def_compression, layout.num_def_values)?;
            Form::LevelsOnly { rep, def }
        } else {
            return Err(Error::corrupt(format!(
                "constant page with {num_buffers} buffers"
            )));
        };
        Ok(Self { layers, form, length })
    }

    /// A page of structs without fields, which has no levels whatever its layers say.
    pub fn empty_structs(
        layout: &ConstantLayout,
        num_buffers: usize,
        length: u64,
        path: &ColumnPath,
    ) -> Result<Self> {
        if num_buffers > 0 || layout.inline_value.is_some() {
            return Err(Error::corrupt("a page of empty structs with buffers or a value"));
        }
        let valid = vec![RepDefLayer::RepdefAllValidItem as i32; path.len()];
        Ok(Self {
            layers: Layers::parse(&valid, path)?,
            form: Form::EmptyStructs,
            length,
        })
    }

    /// Reads levels and scalar from the page's buffers.
    pub fn init(&self, shape: &ValueShape, buffers: &[Bytes]) -> Result<ConstantState> {
        let (raw, shape) = (LevelStream::default(), shape.of_items());
        match &self.form {
            Form::AllNull | Form::EmptyStructs => Ok(ConstantState {
                levels: SlotLevels::default(),
                scalar: None,
            }),
            Form::LevelsOnly { rep, def } => {
                let levels = self.levels(buffers.first().zip(buffers.get(1)), rep, def)?;
                if levels.def.as_ref().is_none_or(|l| l.contains(&0)) && *shape != ValueShape::Null {
                    return Err(Error::corrupt("a slot of a page without values is not null"));
                }
                Ok(ConstantState { levels, scalar: None })
            }
            Form::Scalar {
                inline,
                buffers: count,
            } => {
                let streams = match *count {
                    2 => buffers.first().zip(buffers.get(1)),
                    3 => buffers.get(1).zip(buffers.get(2)),
                    _ => None,
                };
                let levels = self.levels(streams, &raw, &raw)?;
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

    /// The levels of the page; an empty buffer means that a stream is absent.
    fn levels(
        &self,
        buffers: Option<(&Bytes, &Bytes)>,
        rep: &LevelStream,
        def: &LevelStream,
    ) -> Result<SlotLevels> {
        let (rep, def) = match buffers {
            Some((rep_buffer, def_buffer)) => (
                rep.decode(rep_buffer).context(|| "repetition levels")?,
                def.decode(def_buffer).context(|| "definition levels")?,
            ),
            None => (None, None),
        };
        // Levels of a stream whose layers know none are all 0.
        let rep = rep.filter(|_| self.layers.max_rep() > 0);
        let def = def.filter(|_| self.layers.max_def() > 0);
        let slots = match rep.as_ref().or(def.as_ref()) {
            Some(levels) => levels.len(),
            None => usize::try_from(self.length).map_err(|_| Error::corrupt("page too long"))?,
        };
        let levels = SlotLevels::new(&self.layers, rep, def, slots)?;
        if levels.rep.is_none() && self.layers.max_rep() > 0 {
            return Err(Error::corrupt("a page of lists without repetition levels"));
        }
        let starts_row = levels
            .rep
            .as_ref()
            .and_then(|r| r.first())
            .is_none_or(|r| *r == self.layers.max_rep());
        if levels.rows_started(&self.layers) as u64 != self.length || !starts_row {
            return Err(Error::corrupt(format!(
                "the levels do not make the {} rows of the page",
                self.length
            )));
        }
        Ok(levels)
    }

    /// Appends `rows` of the page.
    pub fn decode(&self, state: &ConstantState, rows: &[Range<u64>], out: &mut ColumnSink) -> Result<()> {
        if matches!(self.form, Form::AllNull | Form::EmptyStructs) {
            for range in rows {
                let n = (range.end - range.start) as usize;
                if matches!(self.form, Form::EmptyStructs) {
                    out.structure.push_valid(n);
                    continue;
                }
                out.values.push_default(n)?;
                out.structure.push_null(n);
            }
            return Ok(());
        }
        for slots in state.levels.slots_of(&self.layers, 0, rows) {
            let values = state.levels.values_of(&self.layers, &slots);
            let n = (values.end - values.start) as usize;
            match &state.scalar {
                Some(value) => out.values.push_repeated(value, n)?,
                None => out.values.push_default(n)?,
            }
            state.levels.push(&self.layers, &slots, out);
        }
        Ok(())
    }
}

impl LevelStream {
    fn decode(&self, buffer: &Bytes) -> Result<Option<Vec<u16>>> {
        if buffer.is_empty() {
            return Ok(None);
        }
        let count = match self.count {
            0 => buffer.len() as u64 / 2,
            count => count,
        };
        let count = usize::try_from(count).map_err(|_| Error::corrupt("too many levels"))?;
        let raw = BlockCodec::raw_levels();
        self.codec
            .as_ref()
            .unwrap_or(&raw)
            .decode_levels(buffer, count)
            .map(Some)
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
fn inline_scalar(value: &Bytes, shape: &ValueShape) -> Result<Bytes> {
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
fn buffer_scalar(buffer: Option<&Bytes>, shape: &ValueShape) -> Result<Bytes> {
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
