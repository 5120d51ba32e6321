//! What one commit does (format chapter 31, 2 and 3).
//!
//! A transaction is built against a read version and stored twice: inline in the manifest that it makes, and as
//! `_transactions/{read_version}-{uuid}.txn`. In it, new fragments have the id 0; real ids are given on commit.

pub mod conflict;
mod operation;
mod proto;

use std::collections::BTreeMap;

use bytes::Bytes;
use glaive_file::{Context, Error, Result};
use prost::Message;

pub use conflict::OperationKind;
pub use operation::{
    DataReplacementGroup, Operation, RewriteGroup, RewrittenIndex, Update, UpdateConfig, UpdateMap,
    UpdateMode,
};
pub use proto::stored_uuid;

use crate::proto::lance::table as pb;

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
        self.to_proto().encode_to_vec()
    }

    /// The stored form as a message.
    pub fn to_proto(&self) -> pb::Transaction {
        pb::Transaction {
            read_version: self.read_version,
            uuid: self.uuid.clone(),
            tag: self.tag.clone(),
            transaction_properties: self.properties.clone(),
            operation: self.operation.to_proto(),
        }
    }

    /// The uuid becomes part of a file name.
    ///
    /// # Errors
    /// Invalid input for anything but hexadecimal digits and hyphens.
    pub fn check_uuid(&self) -> Result<()> {
        let legal = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        match !self.uuid.is_empty() && self.uuid.bytes().all(legal) {
            true => Ok(()),
            false => Err(Error::invalid_input(format!(
                "the uuid '{}' of the transaction has other characters than hexadecimal digits and hyphens",
                self.uuid
            ))),
        }
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
