//! From Arrow arrays to slots: the levels of a leaf column, and its values (format chapter 21, 3.3).
//!
//! A walk goes from the top-level array down to the leaf. It keeps one *open* slot for each entry of the current array. A struct
//! marks slots as null; a list replaces each open slot by one for each of its items, or closes it where there are none. What is
//! open at the leaf are the visible slots, one for each leaf value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, StringArray, StructArray, make_array};
use arrow_buffer::NullBuffer;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field as ArrowField};

use super::levels::PageLevels;
use crate::leaves::LeafField;
use crate::schema::{Field, LogicalType};
use crate::v2_1::NodeKind;
use crate::{Error, Result};

/// A mark of a slot before the levels of the page are numbered: which node, counted from the top, is null or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u16);

impl Mark {
    /// A value, or a list with items.
    pub const VALID: Self = Self(0);

    /// The node number `depth` from the top is null.
    pub fn null(depth: usize) -> Self {
        Self((depth as u16) << 1 | 1)
    }

    /// The list number `depth` from the top is empty.
    pub fn empty(depth: usize) -> Self {
        Self(((depth as u16) << 1) + 2)
    }

    /// A number for a table of marks.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Slots of a column, and the values of those that own one.
#[derive(Debug)]
pub struct Shredded {
    /// Repetition levels; empty without lists.
    pub rep: Vec<u16>,
    /// What each slot is.
    pub marks: Vec<Mark>,
    /// Whether the slot ended above the leaf; empty without lists.
    pub closed: Vec<bool>,
    /// Values of the open slots, one array a piece.
    pub leaves: Vec<ArrayRef>,
    /// A null struct hides a list at these depths.
    pub hidden_lists: Vec<usize>,
}

/// Shreds pieces of a top-level array into the column of one leaf, and numbers its levels; `only` as in [`super::encode_page`].
pub fn shred(
    roots: &[ArrayRef],
    top: &Field,
    leaf: &LeafField,
    only: bool,
) -> Result<(PageLevels, Vec<ArrayRef>)> {
    let mut all = Shredded {
        rep: vec![],
        marks: vec![],
        closed: vec![],
        leaves: vec![],
        hidden_lists: vec![],
    };
    for root in roots {
        let mut walk = Walk::new(root.len(), leaf);
        let array = walk.descend(root.clone(), top, leaf)?;
        all.rep.append(&mut walk.rep);
        all.marks.append(&mut walk.marks);
        all.closed.append(&mut walk.closed);
        all.hidden_lists.append(&mut walk.hidden_lists);
        all.leaves.push(array);
    }
    let rows = roots.iter().map(|r| r.len()).sum();
    Ok((PageLevels::number(&all, top, leaf, rows, only), all.leaves))
}

/// The slots of one piece on the way down.
struct Walk {
    rep: Vec<u16>,
    marks: Vec<Mark>,
    closed: Vec<bool>,
    hidden_lists: Vec<usize>,
    /// Lists still to come, the current one included.
    lists: u16,
    has_lists: bool,
}

impl Walk {
    fn new(rows: usize, leaf: &LeafField) -> Self {
        let lists = leaf.nodes.iter().filter(|n| **n == NodeKind::List).count();
        let has_lists = lists > 0;
        let per_slot = if has_lists { rows } else { 0 };
        Self {
            rep: vec![0; per_slot],
            marks: vec![Mark::VALID; rows],
            closed: vec![false; per_slot],
            hidden_lists: Vec::new(),
            lists: lists as u16,
            has_lists,
        }
    }

    fn descend(&mut self, root: ArrayRef, top: &Field, leaf: &LeafField) -> Result<ArrayRef> {
        let (mut array, mut field) = (root, top);
        let mut steps = leaf.steps.iter();
        for (depth, kind) in leaf.nodes.iter().rev().enumerate() {
            if *kind != NodeKind::List {
                self.mark_nulls(depth, field, &array)?;
            }
            let Some(&step) = steps.next() else { break };
            array = match kind {
                NodeKind::Item => child_of_struct(&array, field, step)?,
                NodeKind::List => self.open_lists(depth, field, &array)?,
                NodeKind::Repeated(size) => self.repeat(*size, &array)?,
            };
            field = field
                .children
                .get(step)
                .ok_or_else(|| Error::invalid_input("a path leaves its schema"))?;
        }
        match field.is_packed() {
            true => packed_fields(&array, field),
            false => Ok(without_views(&array)),
        }
    }

    fn mark_nulls(&mut self, depth: usize, field: &Field, array: &ArrayRef) -> Result<()> {
        let nulls = match array.data_type() {
            DataType::Null => Some(NullBuffer::new_null(array.len())),
            // The items of a dictionary may be null too.
            _ => array.logical_nulls().filter(|n| n.null_count() > 0),
        };
        let Some(nulls) = nulls else { return Ok(()) };
        let mut newly = 0;
        let mut mark = |slot: &mut Mark, valid: bool| {
            if !valid && *slot == Mark::VALID {
                *slot = Mark::null(depth);
                newly += 1;
            }
        };
        if self.has_lists {
            let open = self
                .marks
                .iter_mut()
                .zip(&self.closed)
                .filter(|(_, closed)| !**closed);
            open.zip(&nulls).for_each(|((slot, _), valid)| mark(slot, valid));
        } else {
            self.marks
                .iter_mut()
                .zip(&nulls)
                .for_each(|(slot, valid)| mark(slot, valid));
        }
        if newly > 0 && !field.nullable {
            return Err(null_in_required(field));
        }
        Ok(())
    }

    /// Replaces each open slot by the items of its list; returns the items.
    fn open_lists(&mut self, depth: usize, field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
        let lists = Lists::new(array)?;
        let mut next = Walk {
            rep: Vec::with_capacity(self.rep.len()),
            marks: Vec::with_capacity(self.rep.len()),
            closed: Vec::with_capacity(self.rep.len()),
            hidden_lists: std::mem::take(&mut self.hidden_lists),
            lists: self.lists - 1,
            has_lists: true,
        };
        let mut used: Vec<(usize, usize)> = Vec::new();
        let mut list = 0;
        for ((&rep, &mark), &closed) in self.rep.iter().zip(&self.marks).zip(&self.closed) {
            if closed {
                next.push(rep, mark, true);
                continue;
            }
            let rep = if rep == 0 { self.lists } else { rep };
            let (start, end) = lists.span(list);
            let is_null = lists.nulls.as_ref().is_some_and(|n| n.is_null(list));
            list += 1;
            if mark != Mark::VALID {
                next.push(rep, mark, true);
                next.note_hidden(depth);
            } else if is_null {
                if !field.nullable {
                    return Err(null_in_required(field));
                }
                next.push(rep, Mark::null(depth), true);
            } else if start == end {
                next.push(rep, Mark::empty(depth), true);
            } else {
                next.push_items(rep, end - start);
                match used.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => used.push((start, end)),
                }
            }
        }
        *self = next;
        gather(&lists.values, &used)
    }

    fn push(&mut self, rep: u16, mark: Mark, closed: bool) {
        self.rep.push(rep);
        self.marks.push(mark);
        self.closed.push(closed);
    }

    fn push_items(&mut self, rep: u16, n: usize) {
        self.rep.push(rep);
        let len = self.marks.len() + n;
        self.rep.resize(len, 0);
        self.marks.resize(len, Mark::VALID);
        self.closed.resize(len, false);
    }

    fn note_hidden(&mut self, depth: usize) {
        if self.hidden_lists.last() != Some(&depth) {
            self.hidden_lists.push(depth);
        }
    }

    /// Each slot becomes `size` slots; only in columns without lists.
    fn repeat(&mut self, size: u32, array: &ArrayRef) -> Result<ArrayRef> {
        let size = size as usize;
        self.marks = self
            .marks
            .iter()
            .flat_map(|mark| std::iter::repeat_n(*mark, size))
            .collect();
        let list = array.as_fixed_size_list_opt().ok_or_else(|| wrong_type(array))?;
        Ok(list.values().slice(0, list.len() * size))
    }
}

/// A list, large list or map array.
struct Lists {
    offsets: Offsets,
    nulls: Option<NullBuffer>,
    values: ArrayRef,
}

enum Offsets {
    I32(arrow_buffer::OffsetBuffer<i32>),
    I64(arrow_buffer::OffsetBuffer<i64>),
}

impl Lists {
    fn new(array: &ArrayRef) -> Result<Self> {
        let nulls = array.nulls().cloned();
        Ok(match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Self {
                    offsets: Offsets::I32(list.offsets().clone()),
                    nulls,
                    values: list.values().clone(),
                }
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Self {
                    offsets: Offsets::I64(list.offsets().clone()),
                    nulls,
                    values: list.values().clone(),
                }
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Self {
                    offsets: Offsets::I32(map.offsets().clone()),
                    nulls,
                    values: Arc::new(map.entries().clone()),
                }
            }
            _ => return Err(wrong_type(array)),
        })
    }

    /// First and last-plus-one item of a list.
    fn span(&self, list: usize) -> (usize, usize) {
        match &self.offsets {
            Offsets::I32(o) => o
                .get(list)
                .zip(o.get(list + 1))
                .map_or((0, 0), |(s, e)| (*s as usize, *e as usize)),
            Offsets::I64(o) => o
                .get(list)
                .zip(o.get(list + 1))
                .map_or((0, 0), |(s, e)| (*s as usize, *e as usize)),
        }
    }
}

/// The items in ranges of `values`: a slice where that is possible. Items of null lists are dropped.
fn gather(values: &ArrayRef, used: &[(usize, usize)]) -> Result<ArrayRef> {
    Ok(match used {
        [] => values.slice(0, 0),
        [(start, end)] => values.slice(*start, end - start),
        _ => {
            let data = values.to_data();
            let total = used.iter().map(|(start, end)| end - start).sum();
            let mut joined = MutableArrayData::new(vec![&data], false, total);
            for (start, end) in used {
                joined.try_extend(0, *start, *end)?;
            }
            make_array(joined.freeze())
        }
    })
}

fn child_of_struct(array: &ArrayRef, field: &Field, step: usize) -> Result<ArrayRef> {
    let name = &field
        .children
        .get(step)
        .ok_or_else(|| Error::invalid_input("a path leaves its schema"))?
        .name;
    let child = array.as_struct_opt().and_then(|s| match s.column_by_name(name) {
        Some(child) => Some(child.clone()),
        // The fields of a map's entries may have other names.
        None => s.columns().get(step).cloned(),
    });
    child.ok_or_else(|| wrong_type(array))
}

/// The fields of a packed struct in the order of the schema, and those of structs in it.
fn packed_fields(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let child = |(step, child): (usize, &Arc<Field>)| {
        let array = child_of_struct(array, field, step)?;
        match child.logical_type {
            LogicalType::Struct => packed_fields(&array, child),
            _ => Ok(without_views(&array)),
        }
    };
    let children: Vec<ArrayRef> = field
        .children
        .iter()
        .enumerate()
        .map(child)
        .collect::<Result<_>>()?;
    let named = field.children.iter().zip(&children);
    let fields: Vec<_> = named
        .map(|(field, child)| ArrowField::new(&field.name, child.data_type().clone(), true))
        .collect();
    let nulls = array.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.into(),
        children,
        nulls,
        array.len(),
    )?))
}

fn wrong_type(array: &ArrayRef) -> Error {
    Error::schema_mismatch(format!(
        "an array of type {} where the schema says otherwise",
        array.data_type()
    ))
}

/// The error for a null where the schema allows none.
pub fn null_in_required(field: &Field) -> Error {
    Error::schema_mismatch(format!(
        "The field `{}` contained null values even though the field is marked non-null in the schema",
        field.name
    ))
}

/// String and binary views are stored as strings and binaries.
fn without_views(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().iter().collect::<StringArray>()),
        DataType::BinaryView => Arc::new(array.as_binary_view().iter().collect::<BinaryArray>()),
        _ => array.clone(),
    }
}
