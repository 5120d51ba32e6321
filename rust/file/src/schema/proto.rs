//! The schema as stored: fields flattened depth-first, each naming its parent by id (format chapter 10, 6).
//!
//! A parent stands before its children, so no cycle can be written down. -1 is the parent of a top-level field.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_schema::DataType;
use bytes::Bytes;

use super::logical_type::{EXTENSION_NAME, LogicalType};
use super::{Field, Schema};
use crate::proto::lance::file as pb;
use crate::{Error, Result};

/// Deeper schemas are refused: no real one comes near, and recursion over the tree must stay bounded.
const MAX_DEPTH: usize = 100;

/// Hidden top-level columns with fixed negative ids.
const HIDDEN_IDS: [(i32, &str); 3] = [
    (-3, "_rowid"),
    (-4, "_row_created_at_version"),
    (-5, "_row_last_updated_at_version"),
];

impl Schema {
    /// The stored form: pre-order, values of metadata as UTF-8 bytes.
    pub fn to_proto(&self) -> Vec<pb::Field> {
        let mut out = Vec::new();
        for field in &self.fields {
            flatten(field, -1, &mut out);
        }
        out
    }

    /// Builds the tree from its stored form.
    ///
    /// # Errors
    /// Corrupt for a parent that did not come before, a repeated or negative id, an unknown type, a wrong number of
    /// children, or more than 100 levels.
    pub fn from_proto(fields: &[pb::Field], metadata: &BTreeMap<String, Bytes>) -> Result<Self> {
        let mut tree = Tree::default();
        for field in fields {
            tree.add(field)
                .map_err(|e| e.context(format!("schema field '{}' (id {})", field.name, field.id)))?;
        }
        Ok(Self {
            fields: tree.finish()?,
            metadata: strings_of(metadata),
        })
    }

    /// Schema metadata in its stored form.
    pub fn metadata_to_proto(&self) -> BTreeMap<String, Bytes> {
        bytes_of(&self.metadata)
    }
}

/// Metadata values are UTF-8; bytes that are not are replaced, as the format's readers do.
fn strings_of(map: &BTreeMap<String, Bytes>) -> BTreeMap<String, String> {
    map.iter()
        .map(|(key, value)| (key.clone(), String::from_utf8_lossy(value).into_owned()))
        .collect()
}

fn bytes_of(map: &BTreeMap<String, String>) -> BTreeMap<String, Bytes> {
    map.iter()
        .map(|(key, value)| (key.clone(), Bytes::from(value.clone())))
        .collect()
}

fn flatten(field: &Field, parent_id: i32, out: &mut Vec<pb::Field>) {
    out.push(to_proto(field, parent_id));
    for child in &field.children {
        flatten(child, if child.id < 0 { -1 } else { field.id }, out);
    }
}

fn to_proto(field: &Field, parent_id: i32) -> pb::Field {
    pb::Field {
        r#type: pb::field::Type::Parent.into(),
        name: field.name.clone(),
        id: field.id,
        parent_id,
        logical_type: field.logical_type.to_string(),
        nullable: field.nullable,
        encoding: encoding_of(&field.logical_type).into(),
        dictionary: field.dictionary,
        extension_name: field.metadata.get(EXTENSION_NAME).cloned().unwrap_or_default(),
        metadata: bytes_of(&field.metadata),
        unenforced_primary_key: field.primary_key.is_some(),
        unenforced_primary_key_position: field.primary_key.unwrap_or(0),
        unenforced_clustering_key: false,
        unenforced_clustering_key_position: field.clustering_key.unwrap_or(0),
    }
}

/// The hint of the first format that writers still store (format chapter 10, 7.2).
fn encoding_of(logical_type: &LogicalType) -> pb::Encoding {
    match logical_type {
        LogicalType::Struct | LogicalType::Leaf(DataType::Null) => pb::Encoding::None,
        LogicalType::Dictionary { .. } => pb::Encoding::Dictionary,
        LogicalType::Json | LogicalType::Blob => pb::Encoding::VarBinary,
        LogicalType::Leaf(
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary,
        ) => pb::Encoding::VarBinary,
        _ => pb::Encoding::Plain,
    }
}

/// Fields in stored order with the position of their parent; parents stand before children.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    by_id: HashMap<i32, usize>,
}

struct Node {
    field: Field,
    parent: Option<usize>,
    depth: usize,
}

impl Tree {
    fn add(&mut self, stored: &pb::Field) -> Result<()> {
        let field = from_proto(stored)?;
        let parent = self.parent_of(stored)?;
        let depth = parent
            .and_then(|at| self.nodes.get(at))
            .map_or(0, |node| node.depth + 1);
        if depth >= MAX_DEPTH {
            return Err(Error::corrupt(format!("more than {MAX_DEPTH} levels")));
        }
        if field.id >= 0 && self.by_id.insert(field.id, self.nodes.len()).is_some() {
            return Err(Error::corrupt("the id is used twice in the schema"));
        }
        self.nodes.push(Node { field, parent, depth });
        Ok(())
    }

    fn parent_of(&self, stored: &pb::Field) -> Result<Option<usize>> {
        match stored.parent_id {
            -1 if stored.id == -1 => self.preceding_blob().map(Some),
            -1 if stored.id >= 0 || is_hidden(stored) => Ok(None),
            _ if stored.id < 0 => Err(Error::corrupt("negative field id")),
            parent => match self.by_id.get(&parent) {
                Some(at) => Ok(Some(*at)),
                // Ids of the earliest tables start at 1 and name 0 as the parent of top-level fields.
                None if parent == 0 => Ok(None),
                None => Err(Error::corrupt(format!(
                    "parent {parent} does not come before the field"
                ))),
            },
        }
    }

    /// The parts of a blob are stored behind it with neither id nor parent.
    fn preceding_blob(&self) -> Result<usize> {
        let is_blob = |node: &Node| node.field.logical_type == LogicalType::Struct && node.field.is_blob();
        self.nodes
            .iter()
            .rposition(|node| node.field.id >= 0)
            .filter(|at| self.nodes.get(*at).is_some_and(is_blob))
            .ok_or_else(|| Error::corrupt("negative field id"))
    }

    /// Moves every node under its parent, last first.
    fn finish(self) -> Result<Vec<Arc<Field>>> {
        let mut children: Vec<Vec<Arc<Field>>> = Vec::new();
        children.resize_with(self.nodes.len(), Vec::new);
        let mut roots = Vec::new();
        for (at, mut node) in self.nodes.into_iter().enumerate().rev() {
            node.field.children = children.pop().unwrap_or_default();
            node.field.children.reverse();
            check_children(&node.field)?;
            debug_assert_eq!(children.len(), at);
            match node.parent.and_then(|parent| children.get_mut(parent)) {
                Some(siblings) => siblings.push(Arc::new(node.field)),
                None => roots.push(Arc::new(node.field)),
            }
        }
        roots.reverse();
        Ok(roots)
    }
}

fn is_hidden(stored: &pb::Field) -> bool {
    HIDDEN_IDS.contains(&(stored.id, stored.name.as_str()))
}

fn from_proto(stored: &pb::Field) -> Result<Field> {
    let mut metadata = strings_of(&stored.metadata);
    if !stored.extension_name.is_empty() {
        metadata.insert(EXTENSION_NAME.to_string(), stored.extension_name.clone());
    }
    let position = stored.unenforced_primary_key_position;
    Ok(Field {
        name: stored.name.clone(),
        id: stored.id,
        nullable: stored.nullable,
        metadata,
        logical_type: LogicalType::parse(&stored.logical_type)?,
        children: Vec::new(),
        primary_key: (position > 0 || stored.unenforced_primary_key).then_some(position),
        clustering_key: Some(stored.unenforced_clustering_key_position).filter(|position| *position > 0),
        dictionary: stored.dictionary,
    })
}

fn check_children(field: &Field) -> Result<()> {
    let wrong = |text: String| {
        Err(Error::corrupt(text).context(format!("schema field '{}' (id {})", field.name, field.id)))
    };
    if let Some(count) = field.logical_type.child_count()
        && field.children.len() != count
    {
        return wrong(format!(
            "type '{}' has {} children instead of {count}",
            field.logical_type,
            field.children.len()
        ));
    }
    let is_struct = |child: &Arc<Field>| child.logical_type == LogicalType::Struct;
    match (&field.logical_type, field.children.first()) {
        (LogicalType::Map, Some(entries)) if !is_struct(entries) || entries.children.len() != 2 => {
            wrong("the child of a map is not a struct of key and value".to_string())
        }
        (LogicalType::FixedSizeList { .. }, Some(item)) if !is_struct(item) => {
            wrong("the item of a fixed-size list is not the struct that its type names".to_string())
        }
        _ => Ok(()),
    }
}
