//! Pages of file versions 2.1 and 2.2 (format chapters 21 and 22).
//!
//! A column holds the values of one *leaf* field. Nulls above and at the leaf are not in the value bytes: each
//! slot has a *definition level* (u16) that names the outermost node on its path that is null; 0 means a valid
//! value. The `layers` of a page say, leaf first, which nodes consumed a level. How levels and values lie in the
//! page's buffers is its *layout*:
//!
//! * **mini-block**: narrow values, cut into chunks of a few KiB that are decoded as a whole;
//! * **full-zip**: wide values, level and value side by side, each addressable by itself;
//! * **constant**: all null, or one value repeated; the buffers hold levels only.
//!
//! Decoders do no I/O. A [`PageRead`] names the byte ranges it needs for given rows, is supplied with them, and
//! after at most three such rounds decodes synchronously into a [`ColumnSink`].

mod codec;
mod constant;
mod dictionary;
pub(crate) mod encode;
mod full_zip;
mod layers;
mod mini_block;
mod page;
pub(crate) mod ranges;
mod shape;
mod sink;

pub use page::{Page, PageRead};
pub use shape::ValueShape;
pub use sink::{ColumnSink, LayerValidity, Offsets, Values};
