//! Codecs of single full-zip cells.

use glaive_codec::fsst::SymbolTable;
use glaive_codec::general;

use super::*;
use crate::v2_1::fixed_size_list::ListCodec;
use crate::v2_1::packed::{FixedRow, VariableRow};

/// A codec of single full-zip cells.
#[derive(Debug)]
pub enum ValueCodec {
    /// The cell is the value, fixed width.
    Flat,
    /// The cell is the value, variable width.
    Variable,
    Fsst(Box<SymbolTable>),
    General(general::Scheme),
    /// Cells of fixed width.
    FixedSizeList(ListCodec),
    /// Cells are rows of fixed-width fields.
    PackedStruct(FixedRow),
    /// Cells are rows, some of whose fields have a length in front.
    VariablePackedStruct(VariableRow),
    /// Cells of no bytes, because all values are null: pages of fixed-size lists of pylance 0.39.
    AllNull,
}

impl ValueCodec {
    /// Checks a tree in the per-value position of a column of this shape.
    pub fn parse(encoding: &CompressiveEncoding, shape: &ValueShape) -> Result<Self> {
        match compression(encoding)? {
            // Booleans are widened to a byte in full-zip pages.
            flat @ Compression::Flat(_) => {
                let bits = match fixed_bits(shape, flat)? {
                    1 => 8,
                    bits => bits,
                };
                expect_bits(flat_bits(flat)?, bits, "flat")?;
                Ok(Self::Flat)
            }
            Compression::Variable(_) => expect_variable(encoding, shape).map(|()| Self::Variable),
            Compression::Fsst(fsst) => Ok(Self::Fsst(parse_fsst(fsst, shape)?)),
            // The tree inside is informative only.
            Compression::General(general) if matches!(shape, ValueShape::Variable { .. }) => {
                Ok(Self::General(scheme(general.compression.as_ref())?))
            }
            Compression::FixedSizeList(_) => Ok(Self::FixedSizeList(ListCodec::parse(encoding, shape)?)),
            Compression::PackedStruct(packed) => Ok(Self::PackedStruct(FixedRow::parse(packed, shape)?)),
            Compression::VariablePackedStruct(packed) => {
                Ok(Self::VariablePackedStruct(VariableRow::parse(packed, shape)?))
            }
            Compression::Constant(constant) if constant.value.is_none() && shape.fixed_bits().is_some() => {
                Ok(Self::AllNull)
            }
            other => illegal(other, "per-value"),
        }
    }

    /// Bytes of a cell of fixed width; `None` for variable width, or if a cell is no whole number of bytes.
    pub fn cell_bytes(&self, shape: &ValueShape) -> Option<usize> {
        match (self, shape) {
            // Booleans are widened to a byte.
            (Self::Flat, ValueShape::Fixed { bits: 1 }) => Some(1),
            (Self::Flat, ValueShape::Fixed { bits }) => Some(*bits as usize / 8),
            (Self::FixedSizeList(codec), _) => codec.cell_bytes(),
            (Self::PackedStruct(row), _) => Some(row.bytes()),
            (Self::AllNull, _) => Some(0),
            _ => None,
        }
    }

    /// Whether cells have a length in front.
    pub fn is_variable(&self) -> bool {
        !matches!(
            self,
            Self::Flat | Self::FixedSizeList(_) | Self::PackedStruct(_) | Self::AllNull
        )
    }

    /// Appends fixed-width cells that stand side by side.
    pub fn decode_cells(&self, n: usize, cells: &bytes::Bytes, out: &mut Values) -> Result<()> {
        match self {
            Self::FixedSizeList(codec) => codec.decode_cells(n, cells, out),
            Self::PackedStruct(row) => {
                let all = 0..n as u64;
                row.decode_chunk(cells, n, std::slice::from_ref(&all), out)
            }
            _ => out.push_cells(cells),
        }
    }

    /// Appends one fixed-width cell.
    pub fn decode_cell(&self, cell: &[u8], out: &mut Values) -> Result<()> {
        match self {
            Self::FixedSizeList(codec) => codec.decode_cell(cell, out),
            Self::PackedStruct(row) => {
                let one = 0..1;
                row.decode_chunk(cell, 1, std::slice::from_ref(&one), out)
            }
            Self::AllNull => out.push_default(1),
            _ if matches!(out, Values::Bits { .. }) => out.push_bits(cell, 0..1),
            _ => out.push_fixed(cell),
        }
    }

    /// Decodes one variable-width cell and appends the value, or keeps it until enough are collected.
    pub fn decode_value(&self, cell: &[u8], pending: &mut Pending, out: &mut Values) -> Result<()> {
        match self {
            Self::Fsst(table) => {
                pending.push(cell);
                match pending.bytes.len() >= ENOUGH {
                    true => pending.decode(table, out),
                    false => Ok(()),
                }
            }
            Self::VariablePackedStruct(row) => row.decode(cell, pending, out),
            Self::General(scheme) => {
                pending.bytes.clear();
                general::decompress(*scheme, cell, MAX_CHUNK_BYTES, &mut pending.bytes)?;
                out.push_bytes(&pending.bytes)
            }
            Self::Flat | Self::Variable | Self::FixedSizeList(_) | Self::PackedStruct(_) | Self::AllNull => {
                out.push_bytes(cell)
            }
        }
    }

    /// Appends what stands at a null slot.
    pub fn decode_null(&self, pending: &mut Pending, out: &mut Values) -> Result<()> {
        match self {
            Self::Fsst(_) => {
                pending.push(&[]);
                Ok(())
            }
            _ => out.push_default(1),
        }
    }

    /// Appends the values that are still pending.
    pub fn finish(&self, pending: &mut Pending, out: &mut Values) -> Result<()> {
        match self {
            Self::Fsst(table) => pending.decode(table, out),
            _ => Ok(()),
        }
    }
}

/// FSST codes of several cells: values are short, and decoding many at once is what is fast.
#[derive(Debug, Default)]
pub struct Pending {
    /// Codes of the cells, one after the other; in other codecs scratch memory.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Codes that are decoded at once.
const ENOUGH: usize = 8192;

impl Pending {
    fn push(&mut self, cell: &[u8]) {
        self.bytes.extend_from_slice(cell);
        self.ends.push(self.bytes.len());
    }

    fn decode(&mut self, table: &SymbolTable, out: &mut Values) -> Result<()> {
        out.push_fsst(table, &self.bytes, self.ends.iter().copied(), self.ends.len())?;
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}
