//! One node of the schema tree.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, FieldRef};

use super::logical_type::{EXTENSION_METADATA, EXTENSION_NAME, LogicalType};
use crate::proto::lance::file as pb;
use crate::{Error, FileVersion, Result};

/// Metadata key whose presence makes a blob column; `false` given by a caller is dropped with the key.
pub const BLOB: &str = "lance-encoding:blob";
/// Extension name of the second form of blob columns.
pub const BLOB_V2: &str = "lance.blob.v2";
/// Metadata key that fixes the id of a field made from Arrow; it is not stored.
pub const FIELD_ID: &str = "lance:field_id";
/// Metadata key of the members of the primary key.
pub const PRIMARY_KEY: &str = "lance-schema:unenforced-primary-key";
/// Metadata key of the 1-based position in the primary key.
pub const PRIMARY_KEY_POSITION: &str = "lance-schema:unenforced-primary-key:position";
/// Metadata key of the 1-based position in the clustering key.
pub const CLUSTERING_KEY_POSITION: &str = "lance-schema:unenforced-clustering-key:position";

/// Metadata keys of packed structs: the old and the present one.
const PACKED: [&str; 2] = ["packed", "lance-encoding:packed"];

/// A field with its id, its type and its children (format chapter 30, 6.1).
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The field's own name, not a path.
    pub name: String,
    /// Unique in the schema; negative only for hidden system columns and for children of a blob.
    pub id: i32,
    /// Whether rows may be null.
    pub nullable: bool,
    /// Arrow field metadata, the extension name and parameters included.
    pub metadata: BTreeMap<String, String>,
    /// The type of this node.
    pub logical_type: LogicalType,
    /// Child fields in order.
    pub children: Vec<Arc<Field>>,
    /// Member of the primary key: its 1-based position, or 0 for "by field id".
    pub primary_key: Option<u32>,
    /// Member of the clustering key: its 1-based position.
    pub clustering_key: Option<u32>,
    /// Where a 0.1 manifest holds the values of a dictionary column; without meaning in 2.x.
    pub dictionary: Option<pb::Dictionary>,
}

impl Field {
    /// A field without id (-1) and its descendants from Arrow.
    pub(super) fn try_from_arrow(arrow: &ArrowField) -> Result<Self> {
        let logical_type = LogicalType::try_from_arrow(arrow)?;
        let children = arrow_children(arrow, &logical_type)
            .map(|child| Self::try_from_arrow(child).map(Arc::new))
            .collect::<Result<_>>()?;
        let mut metadata: BTreeMap<_, _> = arrow
            .metadata()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if logical_type == LogicalType::Json {
            let former = metadata.insert(EXTENSION_NAME.to_string(), "lance.json".to_string());
            if former.is_some_and(|name| name == "arrow.json") {
                metadata.entry(EXTENSION_METADATA.to_string()).or_default();
            }
        }
        // The bare key makes readers look for a blob, so a field that says it is none must not carry it.
        if metadata
            .get(BLOB)
            .is_some_and(|value| value.eq_ignore_ascii_case("false"))
        {
            metadata.remove(BLOB);
        }
        let id = take_given_id(&mut metadata, arrow.name())?;
        let (primary_key, clustering_key) = keys_of_metadata(&metadata, arrow.name())?;
        Ok(Self {
            name: arrow.name().clone(),
            id,
            nullable: arrow.is_nullable(),
            metadata,
            logical_type,
            children,
            primary_key,
            clustering_key,
            dictionary: None,
        })
    }

    /// The Arrow type, children included.
    pub fn data_type(&self) -> DataType {
        if let Some(data_type) = self.logical_type.childless_data_type() {
            return data_type;
        }
        let item = || self.children.first().map(|child| child.to_arrow());
        let data_type = match &self.logical_type {
            LogicalType::List { large: false, .. } => item().map(DataType::List),
            LogicalType::List { large: true, .. } => item().map(DataType::LargeList),
            LogicalType::Map => item().map(|entries| DataType::Map(entries, false)),
            LogicalType::FixedSizeList { dimension, .. } => {
                item().map(|item| DataType::FixedSizeList(item, *dimension))
            }
            _ => None,
        };
        data_type
            .unwrap_or_else(|| DataType::Struct(self.children.iter().map(|child| child.to_arrow()).collect()))
    }

    /// The Arrow field with its metadata.
    pub fn to_arrow(&self) -> FieldRef {
        let mut metadata: HashMap<_, _> = self.metadata.clone().into_iter().collect();
        if self.logical_type == LogicalType::Blob {
            metadata.insert(BLOB.to_string(), "true".to_string());
        }
        if self.is_blob_as_bytes() {
            metadata.remove(EXTENSION_NAME);
        }
        ArrowField::new(&self.name, self.data_type(), self.nullable)
            .with_metadata(metadata)
            .into()
    }

    /// Whether the values live outside the page: metadata key [`BLOB`] (whatever its value) or extension [`BLOB_V2`].
    pub fn is_blob(&self) -> bool {
        self.logical_type == LogicalType::Blob
            || self.metadata.contains_key(BLOB)
            || self
                .metadata
                .get(EXTENSION_NAME)
                .is_some_and(|name| name == BLOB_V2)
    }

    /// Whether the children of this struct share one column.
    pub fn is_packed(&self) -> bool {
        let flag = |key: &&str| self.metadata.get(*key).is_some_and(|value| is_truthy(value));
        self.logical_type == LogicalType::Struct && PACKED.iter().any(flag)
    }

    /// Whether this field owns a column and hides its children (format chapter 10, 8.1).
    pub fn is_column_leaf(&self) -> bool {
        self.children.is_empty() || self.is_blob() || self.is_packed()
    }

    /// The child of that name.
    pub fn child(&self, name: &str) -> Option<&Arc<Field>> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Calls `visit` for this field and its descendants in pre-order.
    pub fn walk<'a>(self: &'a Arc<Self>, visit: &mut impl FnMut(&'a Arc<Self>)) {
        visit(self);
        for child in &self.children {
            child.walk(visit);
        }
    }

    /// Appends the fields that own a column, in column order.
    pub(super) fn collect_columns(self: &Arc<Self>, version: FileVersion, out: &mut Vec<Arc<Self>>) {
        let leaf = self.is_column_leaf();
        if leaf || version == FileVersion::V2_0 || version.is_legacy() {
            out.push(self.clone());
        }
        if !leaf || version.is_legacy() {
            self.children
                .iter()
                .for_each(|child| child.collect_columns(version, out));
        }
    }
}

/// Parses a metadata flag.
pub fn is_truthy(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
}

/// The Arrow fields that become nodes of the tree.
fn arrow_children<'a>(
    arrow: &'a ArrowField,
    logical_type: &LogicalType,
) -> Box<dyn Iterator<Item = &'a FieldRef> + 'a> {
    match (logical_type.child_count(), arrow.data_type()) {
        (None, DataType::Struct(fields)) => Box::new(fields.iter()),
        (
            Some(1),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _),
        ) => Box::new(std::iter::once(item)),
        _ => Box::new(std::iter::empty()),
    }
}

fn take_given_id(metadata: &mut BTreeMap<String, String>, name: &str) -> Result<i32> {
    match metadata.remove(FIELD_ID) {
        None => Ok(-1),
        Some(text) => text.trim().parse::<i32>().map(|id| id.max(-1)).map_err(|_| {
            Error::invalid_input(format!(
                "metadata '{FIELD_ID}' of field '{name}' is '{text}', not an integer"
            ))
        }),
    }
}

type Keys = (Option<u32>, Option<u32>);

fn keys_of_metadata(metadata: &BTreeMap<String, String>, name: &str) -> Result<Keys> {
    let position = |key: &str| match metadata.get(key) {
        None => Ok(None),
        Some(text) => text.trim().parse::<u32>().map(Some).map_err(|_| {
            Error::invalid_input(format!(
                "metadata '{key}' of field '{name}' is '{text}', not a position"
            ))
        }),
    };
    let flag = metadata.get(PRIMARY_KEY).is_some_and(|value| is_truthy(value));
    let primary = position(PRIMARY_KEY_POSITION)?.or(flag.then_some(0));
    let clustering = position(CLUSTERING_KEY_POSITION)?.filter(|position| *position > 0);
    Ok((primary, clustering))
}
