//! What one commit does (format chapter 31, 2 and 3).
//!
//! A transaction is built against a read version and stored twice: inline in the manifest that it makes, and as
//! `_transactions/{read_version}-{uuid}.txn`. In it, new fragments have the id 0; real ids are given on commit.

mod conflict;

use std::collections::BTreeMap;

use bytes::Bytes;
use glaive_file::{Context, Error, FileVersion, Result, Schema};
use prost::Message;

pub use conflict::{OperationKind, check_conflict};

use crate::manifest::Fragment;
use crate::proto::lance::table::{self as pb, transaction as op};

/// Directory of the transaction files.
pub const TRANSACTIONS: &str = "_transactions";

/// One commit, before or after it happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    /// Version that the operation was computed from; 0 for a new table.
    pub read_version: u64,
    /// Names the transaction.
    pub uuid: String,
    /// Free properties, the commit message among them.
    pub properties: BTreeMap<String, String>,
    /// What it does.
    pub operation: Operation,
    /// Copied to the manifest; unused.
    pub tag: String,
}

/// What a transaction does.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Adds fragments.
    Append {
        /// New fragments.
        fragments: Vec<Fragment>,
    },
    /// Replaces schema and fragments, or makes a new table.
    Overwrite {
        /// New fragments.
        fragments: Vec<Fragment>,
        /// New schema. Its metadata is not stored in the transaction.
        schema: Schema,
        /// Entries that are merged into the config.
        config_upsert_values: BTreeMap<String, String>,
        /// Base paths of a new table.
        initial_bases: Vec<pb::BasePath>,
        /// New default version of data files, if the writer named one. Not stored in the transaction.
        data_version: Option<FileVersion>,
    },
    /// An operation of another writer in its stored form.
    Other(op::Operation),
    /// A stored operation that this engine does not know.
    Unknown,
}

impl Transaction {
    /// A new transaction with a random uuid.
    pub fn new(read_version: u64, operation: Operation) -> Self {
        let uuid = uuid::Uuid::new_v4().to_string();
        Self {
            read_version,
            uuid,
            properties: BTreeMap::new(),
            operation,
            tag: String::new(),
        }
    }

    /// Name inside `_transactions`.
    pub fn file_name(&self) -> String {
        format!("{}-{}.txn", self.read_version, self.uuid)
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let message = pb::Transaction {
            read_version: self.read_version,
            uuid: self.uuid.clone(),
            tag: self.tag.clone(),
            transaction_properties: self.properties.clone(),
            operation: self.operation.to_proto(),
        };
        message.encode_to_vec()
    }

    /// Reads the stored form. An unknown operation is no error.
    ///
    /// # Errors
    /// Corrupt.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let stored = pb::Transaction::decode(bytes).context(|| "transaction")?;
        let operation = Operation::from_proto(stored.operation).context(|| "transaction")?;
        Ok(Self {
            read_version: stored.read_version,
            uuid: stored.uuid,
            properties: stored.transaction_properties,
            operation,
            tag: stored.tag,
        })
    }
}

impl Operation {
    fn from_proto(stored: Option<op::Operation>) -> Result<Self> {
        let fragments = |list: Vec<pb::DataFragment>| {
            list.into_iter()
                .map(Fragment::from_proto)
                .collect::<Result<Vec<_>>>()
        };
        Ok(match stored {
            None => Self::Unknown,
            Some(op::Operation::Append(append)) => Self::Append {
                fragments: fragments(append.fragments)?,
            },
            Some(op::Operation::Overwrite(overwrite)) => Self::Overwrite {
                fragments: fragments(overwrite.fragments)?,
                schema: Schema::from_proto(&overwrite.schema, &overwrite.schema_metadata)?,
                config_upsert_values: overwrite.config_upsert_values,
                initial_bases: overwrite.initial_bases,
                data_version: None,
            },
            Some(other) => Self::Other(other),
        })
    }

    fn to_proto(&self) -> Option<op::Operation> {
        let stored = |list: &[Fragment]| list.iter().map(Fragment::to_proto).collect();
        match self {
            Self::Append { fragments } => Some(op::Operation::Append(op::Append {
                fragments: stored(fragments),
            })),
            Self::Overwrite {
                fragments,
                schema,
                config_upsert_values,
                initial_bases,
                ..
            } => Some(op::Operation::Overwrite(op::Overwrite {
                fragments: stored(fragments),
                schema: schema.to_proto(),
                schema_metadata: BTreeMap::new(),
                config_upsert_values: config_upsert_values.clone(),
                initial_bases: initial_bases.clone(),
            })),
            Self::Other(operation) => Some(operation.clone()),
            Self::Unknown => None,
        }
    }
}

/// Checks the name of a transaction file before it becomes a path.
///
/// # Errors
/// Corrupt for anything but a plain file name.
pub fn transaction_path(name: &str) -> Result<String> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0']) {
        return Err(Error::corrupt(format!(
            "'{name}' is not the name of a transaction file"
        )));
    }
    Ok(format!("{TRANSACTIONS}/{name}"))
}
