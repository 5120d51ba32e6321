//! From names to columns: what to read of a fragment, and how the rows of a batch are put together.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema, SchemaRef};
use glaive_file::schema::no_field;
use glaive_file::{BlobHandling, Error, Field, Result, Schema, json};

use crate::dataset::Dataset;

/// Columns that a table has without storing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SystemColumn {
    /// `_rowid`: without stable ids the address.
    Id,
    /// `_rowaddr`: fragment id in the high 32 bits, physical offset in the low.
    Address,
    /// `_rowoffset`: position among the live rows of the table.
    Offset,
}

/// Names that no stored column may have.
pub(crate) const RESERVED: [&str; 5] = [
    "_rowid",
    "_rowaddr",
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
];

impl SystemColumn {
    /// The system column of a name.
    ///
    /// # Errors
    /// Unsupported for those that need stable row ids.
    fn parse(name: &str) -> Result<Option<Self>> {
        match name {
            "_rowid" => Ok(Some(Self::Id)),
            "_rowaddr" => Ok(Some(Self::Address)),
            "_rowoffset" => Ok(Some(Self::Offset)),
            _ if RESERVED.contains(&name) => Err(Error::unsupported(format!(
                "the column {name} is not supported; it needs stable row ids"
            ))),
            _ => Ok(None),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Id => "_rowid",
            Self::Address => "_rowaddr",
            Self::Offset => "_rowoffset",
        }
    }

    fn field(self) -> FieldRef {
        ArrowField::new(self.name(), DataType::UInt64, true).into()
    }
}

/// One column of the result.
#[derive(Debug, Clone)]
enum Output {
    /// Field number `index` of the fields that are read; `depth` structs are unwrapped around the value.
    Stored {
        index: usize,
        depth: usize,
    },
    System(SystemColumn),
}

/// Where the rows of a batch come from.
pub(crate) struct RowOrigin<'a> {
    /// Fragment id.
    pub(crate) fragment: u32,
    /// Physical offset of each row.
    pub(crate) offsets: &'a [u64],
    /// Position of each row among the live rows of the table.
    pub(crate) positions: &'a [u64],
}

/// The columns of a result.
#[derive(Debug, Clone)]
pub(crate) struct Projection {
    /// Fields to read from data files.
    pub(crate) fields: Vec<Arc<Field>>,
    outputs: Vec<Output>,
    schema: SchemaRef,
}

impl Projection {
    /// The columns of a scan: a nested path gives a flat column of that name.
    ///
    /// # Errors
    /// Invalid input for a name that is missing or given twice.
    pub(crate) fn of_scan(
        dataset: &Dataset,
        columns: Option<&[String]>,
        row_id: bool,
        row_address: bool,
        blobs: BlobHandling,
    ) -> Result<Self> {
        let schema = dataset.schema().view_blobs(blobs);
        let all: Vec<String>;
        let columns = match columns {
            Some(columns) => columns,
            None => {
                all = dataset
                    .schema()
                    .fields
                    .iter()
                    .map(|field| field.name.clone())
                    .collect();
                &all
            }
        };
        let appended = [(row_id, SystemColumn::Id), (row_address, SystemColumn::Address)];
        let appended = appended
            .into_iter()
            .filter_map(|(wanted, column)| wanted.then_some(column));
        let appended: Vec<SystemColumn> = appended.collect();
        let mut builder = Builder::new(&schema);
        let mut names = HashSet::new();
        for name in columns {
            if !names.insert(name.as_str()) {
                return Err(Error::invalid_input(format!("Duplicate column name: {name}")));
            }
            match SystemColumn::parse(name)? {
                Some(column) if appended.contains(&column) => {}
                Some(column) => builder.add_system(column),
                None => builder.add_flat(name)?,
            }
        }
        appended.into_iter().for_each(|column| builder.add_system(column));
        builder.finish(dataset)
    }

    /// The columns of a take, blobs as descriptors: nested paths give structs that hold only the named children.
    ///
    /// # Errors
    /// Invalid input for a missing name.
    pub(crate) fn of_take(dataset: &Dataset, columns: Option<&[String]>) -> Result<Self> {
        let blobs = BlobHandling::Descriptors;
        let Some(columns) = columns else {
            return Self::of_scan(dataset, None, false, false, blobs);
        };
        let schema = &dataset.schema().view_blobs(blobs);
        let mut stored = Vec::new();
        for name in columns {
            if SystemColumn::parse(name)?.is_none() {
                stored.push(name.as_str());
            }
        }
        let projected = schema.project(&stored)?;
        let mut builder = Builder::new(schema);
        let mut seen = HashSet::new();
        for name in columns {
            match SystemColumn::parse(name)? {
                Some(column) if seen.insert(name.as_str()) => builder.add_system(column),
                Some(_) => {}
                None => {
                    let root = schema.project(&[name])?;
                    let id = root.fields.first().map(|field| field.id);
                    let field = projected.fields.iter().find(|field| Some(field.id) == id);
                    if let Some(field) = field
                        && seen.insert(field.name.as_str())
                    {
                        builder.add_field(field.clone());
                    }
                }
            }
        }
        builder.finish(dataset)
    }

    /// The schema of the result.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether rows must be known by offset and position.
    pub(crate) fn needs_origin(&self) -> bool {
        self.outputs
            .iter()
            .any(|output| matches!(output, Output::System(_)))
    }

    /// Puts a batch of `rows` rows together from the arrays of [`Projection::fields`].
    pub(crate) fn assemble(
        &self,
        arrays: &[ArrayRef],
        origin: &RowOrigin<'_>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let columns = self.outputs.iter().map(|output| match output {
            Output::Stored { index, depth } => {
                let array = arrays
                    .get(*index)
                    .ok_or_else(|| Error::corrupt("a column is missing"))?;
                unwrap_structs(array.clone(), *depth)
            }
            Output::System(column) => Ok(system_array(*column, origin)),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns,
            &options,
        )?)
    }
}

/// Collects columns in the order of the result.
struct Builder<'a> {
    source: &'a Schema,
    fields: Vec<Arc<Field>>,
    outputs: Vec<Output>,
    arrow: Vec<FieldRef>,
}

impl<'a> Builder<'a> {
    fn new(source: &'a Schema) -> Self {
        Self {
            source,
            fields: Vec::new(),
            outputs: Vec::new(),
            arrow: Vec::new(),
        }
    }

    fn add_system(&mut self, column: SystemColumn) {
        self.outputs.push(Output::System(column));
        self.arrow.push(column.field());
    }

    fn add_field(&mut self, field: Arc<Field>) {
        let arrow = json::text_field(&field);
        self.add_stored(field, 0, arrow);
    }

    /// The value below `depth` structs of `root`, as `arrow`.
    fn add_stored(&mut self, root: Arc<Field>, depth: usize, arrow: FieldRef) {
        self.outputs.push(Output::Stored {
            index: self.fields.len(),
            depth,
        });
        self.arrow.push(arrow);
        self.fields.push(root);
    }

    fn add_flat(&mut self, path: &str) -> Result<()> {
        let target = self.source.field(path).ok_or_else(|| no_field(path))?;
        let root = self
            .source
            .project(&[path])?
            .fields
            .pop()
            .ok_or_else(|| no_field(path))?;
        let (mut nullable, mut depth, mut at) = (root.nullable, 0, &root);
        while at.id != target.id {
            at = match (at.data_type(), at.children.first()) {
                (DataType::Struct(_), Some(child)) => child,
                _ => {
                    return Err(Error::unsupported(format!(
                        "'{path}': a path cannot go below a list or map"
                    )));
                }
            };
            nullable |= at.nullable;
            depth += 1;
        }
        // A column is named as the caller wrote it, quotes included.
        let arrow = json::text_field(at)
            .as_ref()
            .clone()
            .with_name(path)
            .with_nullable(nullable);
        self.add_stored(root, depth, arrow.into());
        Ok(())
    }

    fn finish(self, dataset: &Dataset) -> Result<Projection> {
        if self
            .outputs
            .iter()
            .any(|output| matches!(output, Output::System(SystemColumn::Id)))
        {
            dataset.check_row_ids_are_addresses()?;
        }
        let metadata = self.source.metadata.clone().into_iter().collect();
        let schema = Arc::new(ArrowSchema::new_with_metadata(self.arrow, metadata));
        Ok(Projection {
            fields: self.fields,
            outputs: self.outputs,
            schema,
        })
    }
}

/// The first child, `depth` times; a null struct makes its child null.
fn unwrap_structs(array: ArrayRef, depth: usize) -> Result<ArrayRef> {
    (0..depth).try_fold(array, |array, _| {
        let parent = array
            .as_struct_opt()
            .ok_or_else(|| Error::corrupt("a struct column holds another type"))?;
        let child = parent
            .columns()
            .first()
            .ok_or_else(|| Error::corrupt("a struct lost its child"))?;
        with_nulls(child, parent.nulls())
    })
}

/// The array with further nulls.
fn with_nulls(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    if nulls.is_none_or(|nulls| nulls.null_count() == 0) || *array.data_type() == DataType::Null {
        return Ok(array.clone());
    }
    let merged = NullBuffer::union(array.nulls(), nulls);
    Ok(make_array(array.to_data().into_builder().nulls(merged).build()?))
}

fn system_array(column: SystemColumn, origin: &RowOrigin<'_>) -> ArrayRef {
    let values: Vec<u64> = match column {
        SystemColumn::Offset => origin.positions.to_vec(),
        SystemColumn::Id | SystemColumn::Address => {
            let fragment = u64::from(origin.fragment) << 32;
            origin.offsets.iter().map(|offset| fragment | offset).collect()
        }
    };
    Arc::new(UInt64Array::from(values))
}
