//! Pages of a column, and reading rows of one page.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_schema::DataType;
use bytes::Bytes;
use prost::Message;

use super::blob::Blob;
use super::list::{ListPage, Lists};
use super::node::{Buffers, Node, tree, unexpected};
use super::parts::{Parts, Requests};
use super::sink::Sink;
use crate::container::{ColumnInfo, FileTail, PageInfo};
use crate::proto::lance::encodings as pb;
use crate::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use crate::schema::BlobForm;
use crate::v2_1::ranges;
use crate::{Context, Error, Result};

/// What the pages of a column hold.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnKind {
    /// Values of a type.
    Values(DataType),
    /// Offsets of lists.
    Lists,
    /// Positions and sizes of blobs.
    Descriptors,
}

/// A column whose pages were checked.
#[derive(Debug)]
pub struct Column {
    kind: ColumnKind,
    /// Pages in row order; those of length 0 carry nothing.
    pages: Vec<Arc<Page>>,
    length: u64,
}

/// One page: where its bytes are and how they are encoded.
#[derive(Debug)]
pub struct Page {
    info: PageInfo,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Values(Node),
    Lists(ListPage),
}

/// The parsed columns of a file, which keep the dictionaries that were read.
#[derive(Debug)]
pub struct ColumnCache(Vec<OnceLock<Arc<Column>>>);

impl ColumnCache {
    /// An empty cache for a file of so many columns.
    pub fn new(num_columns: u32) -> Self {
        Self((0..num_columns).map(|_| OnceLock::new()).collect())
    }

    /// A column, parsed on first use.
    pub fn get(&self, tail: &FileTail, index: u32, kind: &ColumnKind) -> Result<Arc<Column>> {
        let info = tail.column(index)?;
        if info.is_blob {
            // Such a column is read in two ways, and its pages keep nothing that was read.
            return Ok(Arc::new(Column::parse(
                info,
                kind,
                tail.footer().column_meta_start,
            )?));
        }
        let slot = self.0.get(index as usize);
        let slot = slot.ok_or_else(|| Error::corrupt(format!("no column {index}")))?;
        let column = match slot.get() {
            Some(column) => column.clone(),
            None => {
                let data_end = tail.footer().column_meta_start;
                let fresh = Arc::new(Column::parse(info, kind, data_end)?);
                slot.get_or_init(|| fresh).clone()
            }
        };
        if column.kind != *kind {
            return Err(Error::corrupt(format!(
                "column {index} is asked for as {kind:?} and as {:?}",
                column.kind
            )));
        }
        Ok(column)
    }
}

/// The encoding of a page.
pub fn decode_encoding(info: &PageInfo) -> Result<pb::ArrayEncoding> {
    Ok(pb::ArrayEncoding::decode(info.layout.clone())?)
}

impl Column {
    fn parse(info: &ColumnInfo, kind: &ColumnKind, data_end: u64) -> Result<Self> {
        let mut pages = Vec::with_capacity(info.pages.len());
        let mut first_item = 0;
        for page in info.pages.iter().filter(|page| page.length > 0) {
            let parse = || -> Result<Page> {
                let encoding = decode_encoding(page)?;
                let buffers = Buffers {
                    page: &page.buffers,
                    column: &info.buffers,
                };
                let content = match kind {
                    ColumnKind::Lists => match tree(Some(&encoding))? {
                        Tree::List(list) => {
                            Content::Lists(ListPage::parse(list, page.length, first_item, buffers)?)
                        }
                        other => return Err(unexpected(other, "list offsets")),
                    },
                    ColumnKind::Descriptors => Content::Values(Node::parse(
                        Some(&encoding),
                        page.length,
                        &DataType::Struct(BlobForm::V1.parts_as_fields()),
                        buffers,
                    )?),
                    ColumnKind::Values(_) if info.is_blob => Content::Values(Node::Blob(Blob::parse(
                        Some(&encoding),
                        page.length,
                        buffers,
                        data_end,
                    )?)),
                    ColumnKind::Values(data_type) => {
                        Content::Values(Node::parse(Some(&encoding), page.length, data_type, buffers)?)
                    }
                };
                Ok(Page {
                    info: page.clone(),
                    content,
                })
            };
            let page = parse().context(|| format!("page {}", page.number))?;
            if let Content::Lists(lists) = &page.content {
                first_item = lists.end_item();
            }
            pages.push(Arc::new(page));
        }
        Ok(Self {
            kind: kind.clone(),
            pages,
            length: info.length,
        })
    }

    /// The reads of the pages that hold `rows`.
    pub fn plan(&self, rows: &[Range<u64>]) -> Result<Vec<PageRead>> {
        if let Some(last) = rows.last().filter(|r| r.end > self.length) {
            return Err(Error::corrupt(format!(
                "row {} is asked for, the column has {}",
                last.end - 1,
                self.length
            )));
        }
        let end = |page: &Arc<Page>| page.info.first_row + page.info.length;
        let first = rows.first().map_or(self.length, |r| r.start);
        let mut reads = Vec::new();
        for page in self
            .pages
            .iter()
            .skip(self.pages.partition_point(|p| end(p) <= first))
        {
            let inside = ranges::clip(rows, page.info.first_row..end(page));
            if !inside.is_empty() {
                reads.push(PageRead::new(page.clone(), inside));
            }
        }
        Ok(reads)
    }
}

/// Reading some rows of one page: call [`Self::wants`] and [`Self::supply`] in turn until nothing is wanted.
#[derive(Debug)]
pub struct PageRead {
    page: Arc<Page>,
    /// Rows relative to the page.
    rows: Vec<Range<u64>>,
    whole: bool,
    stage: Stage,
    first: Vec<Bytes>,
    second: Vec<Bytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    First,
    Second,
    Ready,
}

impl PageRead {
    fn new(page: Arc<Page>, rows: Vec<Range<u64>>) -> Self {
        Self {
            whole: ranges::is_all(&rows, page.info.length),
            page,
            rows,
            stage: Stage::First,
            first: Vec::new(),
            second: Vec::new(),
        }
    }

    /// Byte ranges to read next; none when the rows can be decoded.
    pub fn wants(&mut self) -> Result<Vec<Range<u64>>> {
        loop {
            let mut requests = Requests::default();
            let (rows, out) = (&self.rows, &mut requests);
            self.stage = match (&self.page.content, self.stage) {
                (_, Stage::Ready) => return Ok(Vec::new()),
                (Content::Values(node), Stage::First) => {
                    node.request(rows, self.whole, out)?;
                    Stage::Second
                }
                (Content::Values(node), Stage::Second) => {
                    node.request_second(rows, self.whole, Parts::new(&self.first), out)?;
                    Stage::Ready
                }
                (Content::Lists(lists), _) => {
                    lists.request(rows, out)?;
                    Stage::Ready
                }
            };
            let ranges = requests.into_ranges();
            if !ranges.is_empty() {
                return Ok(ranges);
            }
        }
    }

    /// Takes the bytes of the ranges that [`Self::wants`] named, in order.
    pub fn supply(&mut self, parts: Vec<Bytes>) {
        match (&self.page.content, self.stage) {
            (Content::Values(_), Stage::Ready) => self.second = parts,
            _ => self.first = parts,
        }
    }

    /// Whether all bytes are there: nothing more will be asked for.
    pub fn wants_nothing(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// The page, for messages.
    pub fn place(&self) -> String {
        format!("page {}", self.page.info.number)
    }

    /// Appends the rows of a page of values.
    pub fn decode(&self, out: &mut Sink) -> Result<()> {
        let Content::Values(node) = &self.page.content else {
            return Err(Error::corrupt("list offsets where values are expected"));
        };
        let (mut first, mut second) = (Parts::new(&self.first), Parts::new(&self.second));
        node.decode(&self.rows, self.whole, &mut first, &mut second, out)
    }

    /// Appends the rows of a page of list offsets.
    pub fn decode_lists(&self, out: &mut Lists) -> Result<()> {
        let Content::Lists(lists) = &self.page.content else {
            return Err(Error::corrupt("values where list offsets are expected"));
        };
        lists.decode(&self.rows, &mut Parts::new(&self.first), out)
    }
}
