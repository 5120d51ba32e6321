//! One page, of whatever layout: what to read for given rows, and decoding it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use prost::Message;

use super::blob::{self, BlobPage};
use super::constant::{ConstantPage, ConstantState};
use super::full_zip::FullZipPage;
use super::layers::{ColumnPath, Layers};
use super::mini_block::{MiniBlockPage, MiniBlockState};
use super::{ColumnSink, ValueShape, ranges};
use crate::container::PageInfo;
use crate::proto::lance::encodings21::{PageLayout, page_layout};
use crate::{Error, FileVersion, Result};

/// A page with its checked layout. What was read to begin with (chunk words, dictionary, levels of constant pages) is kept, so that a
/// later take reads one chunk.
#[derive(Debug)]
pub struct Page {
    info: PageInfo,
    shape: ValueShape,
    layout: Layout,
    /// Held while the initial buffers are read, so that threads which come to a page together read them once.
    initialising: Mutex<()>,
}

#[derive(Debug)]
enum Layout {
    MiniBlock(Box<MiniBlockPage>, OnceLock<MiniBlockState>),
    FullZip(FullZipPage),
    Constant(ConstantPage, OnceLock<ConstantState>),
    Blob(BlobPage),
}

impl Page {
    /// Parses and checks the layout of a page of a column of this shape and path.
    pub fn parse(
        info: PageInfo,
        shape: &ValueShape,
        path: &ColumnPath,
        version: FileVersion,
    ) -> Result<Self> {
        let layout = PageLayout::decode(info.layout.clone())?.layout;
        let layout =
            layout.ok_or_else(|| Error::corrupt("unknown encoding: the page has no known layout"))?;
        Self::of_layout(layout, info, shape, path, version)
    }

    /// Checks the layout of a page.
    pub(super) fn of_layout(
        layout: page_layout::Layout,
        info: PageInfo,
        shape: &ValueShape,
        path: &ColumnPath,
        version: FileVersion,
    ) -> Result<Self> {
        let layout = match layout {
            page_layout::Layout::MiniBlockLayout(l) => Layout::MiniBlock(
                Box::new(MiniBlockPage::parse(&l, &info, shape, path, version)?),
                OnceLock::new(),
            ),
            page_layout::Layout::FullZipLayout(l) => {
                Layout::FullZip(FullZipPage::parse(&l, &info, shape, path)?)
            }
            page_layout::Layout::ConstantLayout(l) => {
                let page = match shape {
                    ValueShape::EmptyStruct => {
                        ConstantPage::empty_structs(&l, info.buffers.len(), info.length, path)?
                    }
                    _ => ConstantPage::parse(&l, info.buffers.len(), info.length, path, version)?,
                };
                Layout::Constant(page, OnceLock::new())
            }
            page_layout::Layout::BlobLayout(l) => {
                Layout::Blob(BlobPage::parse(*l, info.clone(), shape, path, version)?)
            }
        };
        Ok(Self {
            info,
            shape: shape.clone(),
            layout,
            initialising: Mutex::default(),
        })
    }

    /// Where the page's rows and buffers are.
    pub fn info(&self) -> &PageInfo {
        &self.info
    }

    /// Waits until no other thread reads the initial buffers of the page.
    pub fn initialise(&self) -> MutexGuard<'_, ()> {
        self.initialising.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where reading `rows` begins, by what is known of the page.
    fn first_stage(&self, rows: &[Range<u64>]) -> Stage {
        let whole = ranges::is_all(rows, self.info.length);
        match &self.layout {
            Layout::MiniBlock(_, state) if state.get().is_some() => Stage::Data,
            Layout::MiniBlock(..) if whole => Stage::Whole,
            Layout::MiniBlock(..) => Stage::Init,
            Layout::Constant(_, state) if state.get().is_some() => Stage::Ready,
            Layout::Constant(..) => Stage::Init,
            Layout::Blob(_) => Stage::Ready,
            Layout::FullZip(_) if whole => Stage::Data,
            Layout::FullZip(_) => Stage::Index,
        }
    }
}

/// Reading some rows of one page: call [`Self::wants`] and [`Self::supply`] in turn until nothing is wanted, then
/// [`Self::decode`].
#[derive(Debug)]
pub struct PageRead {
    page: Arc<Page>,
    /// Path of the page's column.
    column: Arc<str>,
    /// Rows relative to the page.
    rows: Vec<Range<u64>>,
    stage: Stage,
    parts: Vec<Bytes>,
    /// Layers of the column, if the page holds the descriptors of a blob page.
    blob: Option<Arc<Layers>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Chunk words, dictionary, levels.
    Init,
    /// All buffers at once: most of the page is wanted.
    Whole,
    /// Entries of a row index.
    Index,
    /// Chunks or zipped rows.
    Data,
    Ready,
}

impl PageRead {
    /// Plans to read `rows` of a page of `column`: sorted, disjoint, relative to the page, inside it.
    pub fn new(page: Arc<Page>, column: Arc<str>, rows: Vec<Range<u64>>) -> Self {
        let (page, blob) = match &page.layout {
            Layout::Blob(blob) => (blob.descriptors.clone(), Some(blob.layers.clone())),
            _ => (page, None),
        };
        let stage = page.first_stage(&rows);
        Self {
            page,
            column,
            rows,
            stage,
            parts: Vec::new(),
            blob,
        }
    }

    /// The page, if its initial buffers are to be read first.
    pub fn uninitialised(&self) -> Option<&Arc<Page>> {
        (self.stage == Stage::Init).then_some(&self.page)
    }

    /// Leaves out the initial buffers if another thread has read them meanwhile.
    pub fn look_again(&mut self) {
        if self.stage == Stage::Init {
            self.stage = self.page.first_stage(&self.rows);
        }
    }

    /// Byte ranges to read next; none when the rows can be decoded.
    pub fn wants(&mut self) -> Result<Vec<Range<u64>>> {
        let info = &self.page.info;
        let buffer = |i: usize| info.buffers.get(i).map(|b| b.range());
        let wanted = match (&self.page.layout, self.stage) {
            (_, Stage::Ready) => Vec::new(),
            (Layout::MiniBlock(page, _), Stage::Init) => page.init_buffers().filter_map(buffer).collect(),
            (Layout::MiniBlock(page, state), Stage::Data) => match state.get() {
                Some(state) => page.chunk_ranges(state, info, &self.rows)?,
                None => return Err(Error::corrupt("page was not initialised")),
            },
            (Layout::FullZip(page), Stage::Index) => page.index_ranges(info, &self.rows)?,
            (Layout::FullZip(page), Stage::Data)
                if self.parts.is_empty() && ranges::is_all(&self.rows, info.length) =>
            {
                page.whole_stream(info)?
            }
            (Layout::FullZip(page), Stage::Data) => page.stream_ranges(info, &self.rows, &self.parts)?,
            _ => info.buffers.iter().map(|b| b.range()).collect(),
        };
        if wanted.is_empty() && self.stage != Stage::Ready {
            // Nothing to read at this stage, such as the row index of fixed-width cells.
            self.supply(Vec::new())?;
            return self.wants();
        }
        Ok(wanted)
    }

    /// Takes the bytes of the ranges that [`Self::wants`] named, in order.
    pub fn supply(&mut self, parts: Vec<Bytes>) -> Result<()> {
        let (page, info) = (&self.page, &self.page.info);
        self.stage = match (&page.layout, self.stage) {
            (Layout::MiniBlock(layout, state), Stage::Init) => {
                let fresh = layout.init(info, &page.shape, &parts)?;
                state.get_or_init(|| fresh);
                Stage::Data
            }
            (Layout::MiniBlock(layout, state), Stage::Whole) => {
                let init: Vec<_> = layout
                    .init_buffers()
                    .filter_map(|i| parts.get(i).cloned())
                    .collect();
                let fresh = layout.init(info, &page.shape, &init)?;
                state.get_or_init(|| fresh);
                self.parts = vec![parts.get(1).ok_or_else(missing)?.clone()];
                Stage::Ready
            }
            (Layout::Constant(layout, state), _) => {
                let fresh = layout.init(&page.shape, &parts)?;
                state.get_or_init(|| fresh);
                Stage::Ready
            }
            (Layout::FullZip(_), Stage::Index) => {
                self.parts = parts;
                Stage::Data
            }
            _ => {
                self.parts = parts;
                Stage::Ready
            }
        };
        Ok(())
    }

    /// Column and page, for messages.
    pub fn place(&self) -> String {
        format!("column '{}': page {}", self.column, self.page.info.number)
    }

    /// About how many bytes the variable-width values of the rows take.
    pub fn value_bytes(&self) -> usize {
        match &self.page.layout {
            Layout::MiniBlock(page, state) => state.get().map_or(0, |state| {
                page.value_bytes(state, ranges::count(&self.rows), &self.parts)
            }),
            Layout::FullZip(_) => self.parts.iter().map(Bytes::len).sum(),
            Layout::Constant(..) | Layout::Blob(_) => 0,
        }
    }

    /// Appends the rows.
    pub fn decode(&self, out: &mut ColumnSink) -> Result<()> {
        let Some(layers) = &self.blob else {
            return self.decode_own(out);
        };
        let rows = usize::try_from(ranges::count(&self.rows)).map_err(|_| missing())?;
        let mut descriptors = ColumnSink::new(&self.page.shape, blob::PATH, rows);
        self.decode_own(&mut descriptors)?;
        blob::push(&descriptors, layers, out)
    }

    fn decode_own(&self, out: &mut ColumnSink) -> Result<()> {
        match &self.page.layout {
            Layout::MiniBlock(page, state) => {
                page.decode(state.get().ok_or_else(missing)?, &self.rows, &self.parts, out)
            }
            Layout::FullZip(page) => page.decode(&self.rows, &self.parts, self.page.info.length, out),
            Layout::Constant(page, state) => page.decode(state.get().ok_or_else(missing)?, &self.rows, out),
            Layout::Blob(_) => Err(Error::corrupt("a blob page inside of a blob page")),
        }
    }
}

fn missing() -> Error {
    Error::corrupt("bytes that the page needs were not read")
}
