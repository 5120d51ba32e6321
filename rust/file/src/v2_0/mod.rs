//! Pages of file version 2.0 (format chapter 20).
//!
//! Every field owns a column, parents too. A column is a list of pages; each page has one *encoding tree* whose leaves point at
//! the page's buffers, so that one page is decoded on its own:
//!
//! ```text
//! int32            nullable { no_nulls { flat 32 } }                       values
//!                  nullable { some_nulls { flat 1, flat 32 } }             validity, values
//!                  nullable { all_nulls }                                  no buffer
//! float[4]         nullable { fixed_size_list { 4, nullable { .. } } }
//! utf8             binary { indices: flat 64, bytes: flat 8 }              end offsets, bytes
//! utf8, few        dictionary { flat 8, binary, n }                        0 = null, else item + 1
//! dictionary       dictionary { flat, items, n }                           item
//! list             list { flat 64 }                                        end offsets; the items are the next column
//! struct           struct                                                  nothing; the children are the next columns
//! packed struct    packed_struct { .. }                                    row after row
//! ```
//!
//! Nulls of strings and lists are in their end offsets: an offset of at least `A`, the *null adjustment*, says that the row is
//! null and ends at `offset - A`. A struct is never null. Offsets have no leading zero and count from the start of the page.
//!
//! As in 2.1, decoders do no I/O: they name byte ranges, are supplied with them, and decode. A flat value needs one round of
//! reads, a string two (its offsets first), each list level one more.

mod decode;
mod encode;

pub(crate) use decode::{ColumnCache, holds, own_columns, read_fields};
pub(crate) use encode::Columns;
