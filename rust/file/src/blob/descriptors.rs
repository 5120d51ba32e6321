//! From arrays of descriptors to values.

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StructArray};

use crate::schema::BlobForm;
use crate::{Context, Error, Result};

/// What holds the bytes of a blob.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BlobPlace {
    /// The data file itself.
    Own,
    /// The side file of that id.
    Side(u32),
    /// An object outside of the table's care.
    External {
        /// 0 for an absolute URI, else the base path that it is relative to.
        base: u32,
        /// The URI or path.
        uri: String,
    },
}

/// Where one blob is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobValue {
    /// What holds it.
    pub place: BlobPlace,
    /// First byte.
    pub position: u64,
    /// Number of bytes; `None`: to the end of the object.
    pub size: Option<u64>,
}

/// The values of an array of descriptors; a null has none.
///
/// # Errors
/// Corrupt for an unknown kind or an id that no file can have; unsupported for managed blobs.
pub fn values_of(array: &ArrayRef) -> Result<Vec<Option<BlobValue>>> {
    let parts = array
        .as_struct_opt()
        .ok_or_else(|| Error::invalid_input("blob descriptors are structs"))?;
    let form = match parts.num_columns() {
        2 => BlobForm::V1,
        _ => BlobForm::V2,
    };
    match form {
        BlobForm::V1 => first_form(parts),
        BlobForm::V2 => second_form(parts),
    }
}

fn column<'a, T: arrow_array::ArrowPrimitiveType>(
    parts: &'a StructArray,
    name: &str,
) -> Result<&'a PrimitiveArray<T>> {
    let column = parts
        .column_by_name(name)
        .and_then(|column| column.as_primitive_opt::<T>());
    column.ok_or_else(|| Error::invalid_input(format!("blob descriptors without '{name}'")))
}

fn first_form(parts: &StructArray) -> Result<Vec<Option<BlobValue>>> {
    let positions = column::<UInt64Type>(parts, "position")?.values();
    let sizes = column::<UInt64Type>(parts, "size")?.values();
    let value = |(row, (&position, &size)): (usize, (&u64, &u64))| {
        // Files of version 2.0 have no other mark for a null.
        let is_null = parts.is_null(row) || (size == 0 && position != 0);
        (!is_null).then_some(BlobValue {
            place: BlobPlace::Own,
            position,
            size: Some(size),
        })
    };
    Ok(positions.iter().zip(sizes).enumerate().map(value).collect())
}

fn second_form(parts: &StructArray) -> Result<Vec<Option<BlobValue>>> {
    let kinds = column::<UInt8Type>(parts, "kind")?;
    let positions = column::<UInt64Type>(parts, "position")?;
    let sizes = column::<UInt64Type>(parts, "size")?;
    let ids = column::<UInt32Type>(parts, "blob_id")?;
    let uris = parts
        .column_by_name("blob_uri")
        .and_then(|column| column.as_string_opt::<i32>());
    let uris = uris.ok_or_else(|| Error::invalid_input("blob descriptors without 'blob_uri'"))?;
    let value = |row: usize| -> Result<Option<BlobValue>> {
        if parts.is_null(row) || kinds.is_null(row) {
            return Ok(None);
        }
        let (kind, id) = (kinds.value(row), ids.value(row));
        let (position, size) = (positions.value(row), sizes.value(row));
        let place = place_of(kind, id, uris.value(row))?;
        // The whole of an external object has no stated size; an empty blob lies nowhere.
        let (position, size) = match (&place, size) {
            (BlobPlace::External { .. }, 0) => (position, None),
            (_, 0) => (0, Some(0)),
            _ => (position, Some(size)),
        };
        Ok(Some(BlobValue {
            place,
            position,
            size,
        }))
    };
    let located = |row: usize| value(row).context(|| format!("blob {row} of the batch"));
    (0..parts.len()).map(located).collect()
}

fn place_of(kind: u8, id: u32, uri: &str) -> Result<BlobPlace> {
    match (kind, id) {
        (0, _) => Ok(BlobPlace::Own),
        (1 | 2, 0) => Err(Error::corrupt(format!(
            "a blob of kind {kind} in side file 0, which cannot exist"
        ))),
        (1 | 2, id) => Ok(BlobPlace::Side(id)),
        (3, _) if uri.is_empty() => Err(Error::corrupt("an external blob without a URI")),
        (3, base) => Ok(BlobPlace::External {
            base,
            uri: uri.to_string(),
        }),
        (4 | 5, _) => Err(Error::unsupported(format!(
            "managed blobs (kind {kind}, objects in _blobs) are not supported"
        ))),
        _ => Err(Error::corrupt(format!("unknown blob kind {kind}"))),
    }
}
