//! Pages of file versions 2.1 and 2.2 (format chapters 21 and 22).
//!
//! A column holds the values of one *leaf* field. Nulls, empty lists and list boundaries are not in the value bytes but in
//! levels (u16), one pair a *slot*: the *definition level* names the outermost node on the path that is null or empty (0: a
//! valid value), the *repetition level* tells which list starts there (0: a further item). The `layers` of a page say,
//! leaf first, which nodes consumed levels. How levels and values lie in the page's buffers is its *layout*:
//!
//! * **mini-block**: narrow values, cut into chunks of a few KiB that are decoded as a whole;
//! * **full-zip**: wide values, level and value side by side, each addressable by itself;
//! * **constant**: all null, or one value repeated; the buffers hold levels only;
//! * **blob**: positions and sizes of values that lie elsewhere in the file.
//!
//! Decoders do no I/O. A [`PageRead`] names the byte ranges it needs for given rows, is supplied with them, and
//! after at most three such rounds decodes synchronously into a [`ColumnSink`].

pub(crate) mod blob;
mod codec;
mod constant;
mod dictionary;
mod dictionary_column;
pub(crate) mod encode;
mod fixed_size_list;
mod full_zip;
mod layers;
mod levels;
mod mini_block;
mod packed;
mod page;
pub(crate) mod ranges;
mod shape;
mod sink;
mod unravel;

pub use dictionary_column::DictionaryValues;
pub use layers::{ColumnPath, NodeKind, has_lists, slots_per_row};
pub use page::{Page, PageRead};
pub use shape::ValueShape;
pub use sink::{ColumnSink, ListLevel, Offsets, Values};
pub use unravel::FinishedNode;
