//! Blob columns on their way to data files (format chapter 21, 7.2).
//!
//! Tables of version 2.2 hold blobs of the second form only. A column of the first form that is written to one becomes
//! `struct<data, uri>`; the arrays follow without a copy.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait, StructArray, new_null_array,
};
use arrow_schema::{DataType, Field as ArrowField, FieldRef, Fields, Schema as ArrowSchema};
use glaive_file::blob::{BlobTargets, External, side_file_name};
use glaive_file::io::{FileSink, LocalStorage, Storage};
use glaive_file::schema::{BLOB, BLOB_V2, BlobForm, EXTENSION_NAME};
use glaive_file::{Error, Field, FileVersion, Result, Schema};

use crate::proto::lance::table::BasePath;

/// What to do with blobs that are given by a URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExternalBlobs {
    /// Store the URI.
    Reference {
        /// Also of objects outside of the base paths of the table.
        outside_bases: bool,
    },
    /// Copy the bytes into the table.
    Ingest,
}

impl Default for ExternalBlobs {
    fn default() -> Self {
        Self::Reference { outside_bases: false }
    }
}

/// The schema with blobs of the first form as those of the second.
pub(super) fn promote(schema: &ArrowSchema) -> ArrowSchema {
    let fields: Vec<FieldRef> = schema.fields().iter().map(promote_field).collect();
    ArrowSchema::new_with_metadata(fields, schema.metadata().clone())
}

fn promote_field(field: &FieldRef) -> FieldRef {
    let metadata = field.metadata();
    let is_blob = metadata
        .get(BLOB)
        .is_some_and(|value| !value.eq_ignore_ascii_case("false"));
    let is_binary = matches!(
        field.data_type(),
        DataType::LargeBinary | DataType::Binary | DataType::BinaryView
    );
    if is_blob && is_binary && !metadata.contains_key(EXTENSION_NAME) {
        let mut metadata: HashMap<_, _> = metadata.clone();
        metadata.remove(BLOB);
        metadata.insert(EXTENSION_NAME.to_string(), BLOB_V2.to_string());
        let parts = [("data", DataType::LargeBinary), ("uri", DataType::Utf8)];
        let parts = parts.map(|(name, data_type)| ArrowField::new(name, data_type, true));
        let field = ArrowField::new(
            field.name(),
            DataType::Struct(parts.to_vec().into()),
            field.is_nullable(),
        );
        return Arc::new(field.with_metadata(metadata));
    }
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(promote_field).collect()),
        DataType::List(item) => DataType::List(promote_field(item)),
        DataType::LargeList(item) => DataType::LargeList(promote_field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(promote_field(item), *size),
        _ => return field.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// Refuses blobs of the first form in files that hold the second.
pub(super) fn check_form(schema: &Schema, version: FileVersion) -> Result<()> {
    let fields = schema.fields_pre_order().into_iter();
    let mut first = fields.filter(|field| field.blob_form() == Some(BlobForm::V1));
    match first.next().filter(|_| version >= FileVersion::V2_2) {
        None => Ok(()),
        Some(field) if field.data_type() != DataType::LargeBinary => Err(Error::unsupported(format!(
            "Blob encoding is not available for field '{}' with data type {}: blob columns are binary",
            field.name,
            field.data_type()
        ))),
        Some(field) => Err(Error::unsupported(format!(
            "the table stores the blob column '{}' in its data files of version 2.0 or 2.1, and files of version {version} \
             cannot be added to it: write with the data_storage_version of the table, or overwrite it",
            field.name
        ))),
    }
}

/// The array with all blobs of the second form in their full form: data, uri, position, size.
pub(super) fn conform(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    if field.blob_form() == Some(BlobForm::V2) {
        return conform_blob(field, array);
    }
    if !field.holds_blobs() || field.is_blob() {
        return Ok(array.clone());
    }
    match array.data_type() {
        DataType::Struct(fields) => conform_struct(field, fields, array.as_struct()),
        DataType::List(item) => conform_list(field, item, array.as_list::<i32>()),
        DataType::LargeList(item) => conform_list(field, item, array.as_list::<i64>()),
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let items = conform(only_child(field)?, list.values())?;
            let nulls = list.nulls().cloned();
            let item = retyped(item, &items);
            Ok(Arc::new(FixedSizeListArray::try_new(item, *size, items, nulls)?))
        }
        // The types differ, which the caller reports.
        _ => Ok(array.clone()),
    }
}

fn conform_blob(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(Error::schema_mismatch("a blob v2 column is a struct"));
    };
    let given = |name: &str| match array.data_type() {
        DataType::Struct(_) => array.as_struct().column_by_name(name).cloned(),
        DataType::LargeBinary | DataType::Binary | DataType::BinaryView => {
            (name == "data").then(|| array.clone())
        }
        _ => None,
    };
    if given("data").is_none() {
        return Err(Error::schema_mismatch(format!(
            "`{}` should be a blob (bytes, or a struct of data and uri) but type was {}",
            field.name,
            array.data_type()
        )));
    }
    let part = |part: &FieldRef| match given(part.name()) {
        Some(column) if column.data_type() == part.data_type() => Ok(column),
        Some(column) => Ok(arrow_cast::cast(&column, part.data_type())?),
        None => Ok(new_null_array(part.data_type(), array.len())),
    };
    let columns = fields.iter().map(part).collect::<Result<Vec<_>>>()?;
    let nulls = array.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.clone(),
        columns,
        nulls,
        array.len(),
    )?))
}

fn conform_struct(field: &Field, fields: &Fields, array: &StructArray) -> Result<ArrayRef> {
    let (mut columns, mut types) = (Vec::new(), Vec::new());
    for (arrow, column) in fields.iter().zip(array.columns()) {
        let column = match field.child(arrow.name()) {
            Some(child) => conform(child, column)?,
            None => column.clone(),
        };
        types.push(retyped(arrow, &column));
        columns.push(column);
    }
    let nulls = array.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(
        types.into(),
        columns,
        nulls,
        array.len(),
    )?))
}

fn conform_list<O: OffsetSizeTrait>(
    field: &Field,
    item: &FieldRef,
    array: &GenericListArray<O>,
) -> Result<ArrayRef> {
    let items = conform(only_child(field)?, array.values())?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    let item = retyped(item, &items);
    Ok(Arc::new(GenericListArray::<O>::try_new(
        item, offsets, items, nulls,
    )?))
}

fn only_child(field: &Field) -> Result<&Arc<Field>> {
    let child = field.children.first();
    child.ok_or_else(|| Error::schema_mismatch("a list without an item field"))
}

fn retyped(field: &FieldRef, array: &ArrayRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(array.data_type().clone()))
}

/// Where the blobs of one data file go.
pub(super) struct Targets {
    pub(super) storage: Arc<dyn Storage>,
    /// Directory of the side files.
    pub(super) directory: String,
    /// Files written so far, to be removed if the write fails.
    pub(super) written: Arc<Mutex<Vec<String>>>,
    pub(super) external: ExternalBlobs,
    pub(super) bases: Vec<BasePath>,
}

impl BlobTargets for Targets {
    fn create_side_file(&mut self, id: u32) -> Result<Box<dyn FileSink>> {
        let path = format!("{}/{}", self.directory, side_file_name(id));
        let sink = self.storage.create_writer(&path)?;
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path);
        Ok(sink)
    }

    fn external(&mut self, uri: &str) -> Result<External> {
        let outside_bases = match self.external {
            ExternalBlobs::Ingest => return Ok(External::Ingest(LocalStorage::open_location(uri)?)),
            ExternalBlobs::Reference { outside_bases } => outside_bases,
        };
        if let Some((base, uri)) = self.bases.iter().find_map(|base| below(base, uri)) {
            return Ok(External::Reference { base, uri });
        }
        if !outside_bases {
            return Err(Error::invalid_input(format!(
                "External blob URI '{uri}' is outside registered external bases (dataset root is not allowed). Set \
                 allow_external_blob_outside_bases=true to store it as absolute external URI."
            )));
        }
        if !uri.contains("://") {
            return Err(Error::invalid_input(format!(
                "External URI '{uri}' is outside registered external bases and is not a valid absolute URI"
            )));
        }
        Ok(External::Reference {
            base: 0,
            uri: uri.to_string(),
        })
    }
}

/// The id of a base path and the path of `uri` below it, if it is there.
fn below(base: &BasePath, uri: &str) -> Option<(u32, String)> {
    let path =
        |uri: &str| -> Option<PathBuf> { Some(LocalStorage::from_uri(uri).ok()?.root().to_path_buf()) };
    let relative = path(uri)?;
    let relative = relative.strip_prefix(path(&base.path)?).ok()?.to_str()?;
    let usable = base.id != 0 && !base.is_dataset_root && !relative.is_empty() && !relative.contains("..");
    usable.then(|| (base.id, relative.to_string()))
}
