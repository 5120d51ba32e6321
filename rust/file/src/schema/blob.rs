//! Blob fields: columns whose values lie outside of the pages (format chapter 21, 7).
//!
//! ```text
//!                 in a table                     in a file                             read as descriptors
//! first form      large_binary, key BLOB         the same                              struct<position, size>
//! second form     struct<data, uri, ..>, BLOB_V2 packed struct of the five parts       the five parts
//! ```
//!
//! A file of the first form may stand in a table whose field has the second: the field says what a reader gets, the file what is
//! stored.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Fields};

use super::logical_type::{EXTENSION_NAME, LogicalType};
use super::{BLOB, BLOB_V2, Field, Schema};
use crate::v2_1::ValueShape;
use crate::{FileVersion, Result};

/// Metadata key that asks for a packed struct.
const PACKED: &str = "lance-encoding:packed";

/// Ids of the parts of descriptors while they are read, counted down: parts have none of their own in files.
const FIRST_PART_ID: i32 = -100;

/// Which of the two kinds of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobForm {
    /// Position and size in the data file itself.
    V1,
    /// Kind, position, size, blob id and URI: the bytes may be in other files.
    V2,
}

/// What a reader wants of blob columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlobHandling {
    /// Where the values are.
    #[default]
    Descriptors,
    /// The values.
    Bytes,
}

impl BlobForm {
    /// Names and types of the parts of a descriptor.
    fn parts(self) -> &'static [(&'static str, DataType)] {
        match self {
            Self::V1 => &[("position", DataType::UInt64), ("size", DataType::UInt64)],
            Self::V2 => &[
                ("kind", DataType::UInt8),
                ("position", DataType::UInt64),
                ("size", DataType::UInt64),
                ("blob_id", DataType::UInt32),
                ("blob_uri", DataType::Utf8),
            ],
        }
    }

    /// The struct of descriptors that stands for `field`; the id of part `k` is `first_id - k * step`.
    fn descriptor(self, field: &Field, first_id: i32, step: i32) -> Field {
        let part = |(number, (name, data_type)): (i32, &(&str, DataType))| {
            let logical_type = LogicalType::Leaf(data_type.clone());
            let id = first_id - number * step;
            Arc::new(Field::plain(name, id, self == Self::V1, logical_type, Vec::new()))
        };
        let parts = (0..).zip(self.parts()).map(part).collect();
        let mut out = Field::plain(&field.name, field.id, field.nullable, LogicalType::Struct, parts);
        out.metadata.insert(BLOB.to_string(), "true".to_string());
        if self == Self::V2 {
            out.metadata.insert(PACKED.to_string(), "true".to_string());
        }
        out
    }

    /// The parts of a descriptor as Arrow fields.
    pub(crate) fn parts_as_fields(self) -> Fields {
        let part = |(name, data_type): &(&str, DataType)| {
            ArrowField::new(*name, data_type.clone(), self == Self::V1)
        };
        self.parts().iter().map(part).collect()
    }

    /// The physical form of descriptors as packed rows.
    pub(crate) fn shape(self) -> Result<ValueShape> {
        ValueShape::packed(self.parts().iter().map(|(_, data_type)| data_type))
    }

    /// The field of descriptors in place of a blob field, as a reader gets it.
    pub fn descriptors_of(self, field: &Field) -> Field {
        self.descriptor(field, FIRST_PART_ID, 1)
    }
}

impl Field {
    /// A field without metadata.
    fn plain(
        name: &str,
        id: i32,
        nullable: bool,
        logical_type: LogicalType,
        children: Vec<Arc<Self>>,
    ) -> Self {
        Self {
            name: name.to_string(),
            id,
            nullable,
            metadata: Default::default(),
            logical_type,
            children,
            primary_key: None,
            clustering_key: None,
            dictionary: None,
        }
    }

    /// The form of a blob field; `None` for any other field.
    pub fn blob_form(&self) -> Option<BlobForm> {
        match self.is_blob() {
            false => None,
            true if self.has_extension(BLOB_V2) || self.child("kind").is_some() => Some(BlobForm::V2),
            true => Some(BlobForm::V1),
        }
    }

    fn has_extension(&self, name: &str) -> bool {
        self.metadata.get(EXTENSION_NAME).is_some_and(|own| own == name)
    }

    /// Whether this is a blob that a reader gets as its bytes, although the table knows it as a struct.
    pub(super) fn is_blob_as_bytes(&self) -> bool {
        self.logical_type == LogicalType::Leaf(DataType::LargeBinary) && self.has_extension(BLOB_V2)
    }

    /// Whether this is a blob of the second form as a table or a caller knows it.
    fn is_logical_blob(&self) -> bool {
        self.logical_type == LogicalType::Struct && self.has_extension(BLOB_V2)
    }

    /// Whether this field or one below it is a blob.
    pub fn holds_blobs(&self) -> bool {
        self.is_blob() || self.children.iter().any(|child| child.holds_blobs())
    }

    /// The field as a reader gets it.
    pub fn view_blobs(self: &Arc<Self>, handling: BlobHandling) -> Arc<Self> {
        self.replace_blobs(&|field| match (handling, field.blob_form()?) {
            (BlobHandling::Descriptors, form) => Some(form.descriptors_of(field)),
            (BlobHandling::Bytes, BlobForm::V1) => None,
            (BlobHandling::Bytes, BlobForm::V2) => Some(Self {
                logical_type: LogicalType::Leaf(DataType::LargeBinary),
                children: Vec::new(),
                ..field.clone()
            }),
        })
    }

    /// The field as a file of that version carries it in its schema.
    pub(crate) fn blobs_in_file(self: &Arc<Self>) -> Arc<Self> {
        self.replace_blobs(&|field| {
            field
                .is_logical_blob()
                .then(|| BlobForm::V2.descriptor(field, -1, 0))
        })
    }

    /// The field whose arrays become pages: descriptors as packed structs.
    pub(crate) fn blobs_in_pages(self: &Arc<Self>) -> Arc<Self> {
        self.replace_blobs(&|field| {
            let mut out = field.blob_form()?.descriptors_of(field);
            out.metadata.insert(PACKED.to_string(), "true".to_string());
            Some(out)
        })
    }

    /// The field as a writer takes it: a blob of the second form has all four parts, whichever of them the table has.
    pub fn blobs_to_write(self: &Arc<Self>) -> Arc<Self> {
        let parts = [
            ("data", DataType::LargeBinary),
            ("uri", DataType::Utf8),
            ("position", DataType::UInt64),
            ("size", DataType::UInt64),
        ];
        self.replace_blobs(&|field| {
            let part = |(number, (name, data_type)): (i32, &(&str, DataType))| {
                let logical_type = LogicalType::Leaf(data_type.clone());
                Arc::new(Self::plain(
                    name,
                    FIRST_PART_ID - number,
                    true,
                    logical_type,
                    Vec::new(),
                ))
            };
            field.is_logical_blob().then(|| Self {
                children: (0..).zip(&parts).map(part).collect(),
                ..field.clone()
            })
        })
    }

    /// The field with every blob replaced for which `replace` gives another field.
    fn replace_blobs(self: &Arc<Self>, replace: &impl Fn(&Self) -> Option<Self>) -> Arc<Self> {
        if self.is_blob() {
            return replace(self).map_or_else(|| self.clone(), Arc::new);
        }
        if !self.holds_blobs() {
            return self.clone();
        }
        let children = self.children.iter().map(|child| child.replace_blobs(replace));
        Arc::new(Self {
            children: children.collect(),
            ..self.as_ref().clone()
        })
    }
}

impl Schema {
    /// The schema of what a reader gets.
    pub fn view_blobs(&self, handling: BlobHandling) -> Self {
        self.map_fields(|field| field.view_blobs(handling))
    }

    /// The schema of what a writer takes; see [`Field::blobs_to_write`].
    pub fn blobs_to_write(&self) -> Self {
        self.map_fields(Field::blobs_to_write)
    }

    /// The schema that a file carries.
    pub(crate) fn blobs_in_file(&self) -> Self {
        self.map_fields(Field::blobs_in_file)
    }

    fn map_fields(&self, map: impl Fn(&Arc<Field>) -> Arc<Field>) -> Self {
        Self {
            fields: self.fields.iter().map(map).collect(),
            metadata: self.metadata.clone(),
        }
    }
}

/// Why a blob field cannot be stored in a version; `in_list`: below a list or fixed-size list.
pub(super) fn cannot_write(field: &Field, version: FileVersion, in_list: bool) -> Option<String> {
    let data_type = field.data_type();
    match field.blob_form()? {
        BlobForm::V2 if version < FileVersion::V2_2 => {
            Some(format!("Blob v2 requires file version >= 2.2 (got {version})"))
        }
        BlobForm::V2 if !field.is_logical_blob() || field.child("data").is_none() => Some(format!(
            "column '{}' of type {data_type}: a blob v2 column (extension {BLOB_V2}) is a struct of 'data' and 'uri'",
            field.name
        )),
        BlobForm::V2 => None,
        BlobForm::V1 if data_type != DataType::LargeBinary => Some(format!(
            "Blob encoding is not available for field '{}' with data type {data_type}: columns with the metadata key \
             {BLOB} are large_binary",
            field.name
        )),
        BlobForm::V1 if in_list && version > FileVersion::V2_0 => Some(format!(
            "field '{}': lists of blobs (metadata key {BLOB} in a list) cannot be stored in a file of version {version}; \
             use blob v2 (extension {BLOB_V2}, blob_field) in a table of version 2.2, or remove the key",
            field.name
        )),
        BlobForm::V1 => None,
    }
}
