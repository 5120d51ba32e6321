//! The rows of one page, and their encoding.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::DataType;

use super::column::StringOptions;
use super::list::ListPiece;
use super::{dictionary, fixed, list, message, packed, strings};
use crate::container::{ARRAY_ENCODING_URL, EncodedPage};
use crate::proto::lance::encodings::ArrayEncoding;
use crate::{Context, Error, Result};

/// A run of rows of one column.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Rows of a struct header.
    Rows(usize),
    Values(ArrayRef),
    Lists(ListPiece),
    /// Position and size of values in the file.
    Blobs(Vec<[u64; 2]>),
}

impl Piece {
    pub fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => *rows,
            Self::Values(array) => array.len(),
            Self::Lists(lists) => lists.len(),
            Self::Blobs(descriptors) => descriptors.len(),
        }
    }

    /// Rows `[start, start + len)`.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        match self {
            Self::Rows(_) => Self::Rows(len),
            Self::Values(array) => Self::Values(array.slice(start, len)),
            Self::Lists(lists) => Self::Lists(lists.slice(start, len)),
            Self::Blobs(descriptors) => {
                Self::Blobs(descriptors.get(start..start + len).unwrap_or_default().to_vec())
            }
        }
    }

    /// Bytes of the rows: the measure of a page's size.
    pub fn value_bytes(&self) -> Result<usize> {
        match self {
            Self::Rows(_) => Ok(0),
            Self::Values(array) => Ok(array.to_data().get_slice_memory_size()?),
            Self::Lists(lists) => Ok(lists.len() * 8),
            Self::Blobs(descriptors) => Ok(descriptors.len() * 16),
        }
    }
}

/// The rows of one page.
pub struct PageJob {
    path: String,
    strings: StringOptions,
    pieces: Vec<Piece>,
}

/// The buffers of a page, numbered as they are added.
#[derive(Debug, Default)]
pub struct PageBuffers(Vec<Buffer>);

impl PageBuffers {
    /// Adds a buffer and returns its number.
    pub fn add(&mut self, buffer: impl Into<Buffer>) -> u32 {
        self.0.push(buffer.into());
        self.0.len() as u32 - 1
    }
}

impl PageJob {
    pub fn new(path: &str, strings: StringOptions) -> Self {
        Self {
            path: path.to_owned(),
            strings,
            pieces: Vec::new(),
        }
    }

    pub fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    /// The page; more than one where dictionaries of several batches cannot be joined.
    pub fn encode(&self) -> Result<Vec<EncodedPage>> {
        self.encode_pieces().context(|| format!("column '{}'", self.path))
    }

    fn encode_pieces(&self) -> Result<Vec<EncodedPage>> {
        let arrays: Vec<_> = self.pieces.iter().filter_map(Piece::as_values).cloned().collect();
        let one = |encode: &dyn Fn(&mut PageBuffers) -> Result<ArrayEncoding>| {
            let mut buffers = PageBuffers::default();
            let encoding = encode(&mut buffers)?;
            let length = self.pieces.iter().map(|p| p.len() as u64).sum();
            Ok(vec![page(&encoding, buffers, length)])
        };
        match self.pieces.first() {
            Some(Piece::Blobs(_)) => return one(&|buffers| Ok(packed::encode_blobs(&self.blobs(), buffers))),
            Some(Piece::Lists(_)) => return one(&|buffers| list::encode(&self.lists(), buffers)),
            _ => {}
        }
        match arrays.first().map(|a| a.data_type()) {
            None => Ok(Vec::new()),
            Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary) => {
                one(&|buffers| strings::encode(&arrays, self.strings, buffers))
            }
            Some(DataType::Dictionary(..)) => match concat(&arrays) {
                Ok(array) => one(&|buffers| dictionary::encode_arrow(&array, buffers)),
                Err(_) if arrays.len() > 1 => {
                    let mut pages = Vec::with_capacity(arrays.len());
                    for array in &arrays {
                        let mut buffers = PageBuffers::default();
                        let encoding = dictionary::encode_arrow(array, &mut buffers)?;
                        pages.push(page(&encoding, buffers, array.len() as u64));
                    }
                    Ok(pages)
                }
                Err(e) => Err(e),
            },
            Some(DataType::Struct(_)) => one(&|buffers| packed::encode(&concat(&arrays)?, buffers)),
            Some(_) => one(&|buffers| fixed::encode(&concat(&arrays)?, buffers)),
        }
    }

    fn lists(&self) -> Vec<&ListPiece> {
        let lists = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Lists(lists) => Some(lists),
            _ => None,
        });
        lists.collect()
    }

    fn blobs(&self) -> Vec<[u64; 2]> {
        let blobs = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Blobs(descriptors) => Some(descriptors),
            _ => None,
        });
        blobs.flatten().copied().collect()
    }
}

impl Piece {
    fn as_values(&self) -> Option<&ArrayRef> {
        match self {
            Self::Values(array) => Some(array),
            _ => None,
        }
    }
}

fn page(encoding: &ArrayEncoding, buffers: PageBuffers, length: u64) -> EncodedPage {
    EncodedPage {
        type_url: ARRAY_ENCODING_URL,
        encoding: message::bytes_of(encoding),
        buffers: buffers.0,
        length,
        priority: 0,
    }
}

/// The arrays as one; the only one is not copied.
pub fn concat(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    match arrays {
        [only] => Ok(only.clone()),
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            arrow_select::concat::concat(&arrays).map_err(|e| Error::invalid_input(e.to_string()))
        }
    }
}
