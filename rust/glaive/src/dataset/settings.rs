//! Config and metadata (format chapter 30, 13).

use std::collections::BTreeMap;

use glaive_file::{Error, Result};

use super::Dataset;
use crate::transaction::{Operation, UpdateConfig, UpdateMap};

impl Dataset {
    /// Free metadata of the table.
    pub fn table_metadata(&self) -> &BTreeMap<String, String> {
        &self.manifest().table_metadata
    }

    /// Edits the config of the table.
    ///
    /// # Errors
    /// Commit conflict if another writer changed the same keys.
    pub fn update_config(&self, update: UpdateMap) -> Result<Self> {
        self.update_settings(UpdateConfig {
            config: Some(update),
            ..UpdateConfig::default()
        })
    }

    /// Edits the metadata of the table.
    ///
    /// # Errors
    /// Commit conflict if another writer changed the same keys.
    pub fn update_table_metadata(&self, update: UpdateMap) -> Result<Self> {
        self.update_settings(UpdateConfig {
            table_metadata: Some(update),
            ..UpdateConfig::default()
        })
    }

    /// Edits the metadata of the schema.
    ///
    /// # Errors
    /// Commit conflict if another writer changed it.
    pub fn update_schema_metadata(&self, update: UpdateMap) -> Result<Self> {
        self.update_settings(UpdateConfig {
            schema_metadata: Some(update),
            ..UpdateConfig::default()
        })
    }

    /// Edits the metadata of fields, by path.
    ///
    /// # Errors
    /// Invalid input for an unknown field; commit conflict if another writer changed that of the same field.
    pub fn update_field_metadata(&self, updates: BTreeMap<String, UpdateMap>) -> Result<Self> {
        let by_id = updates.into_iter().map(|(path, update)| {
            let field = self
                .schema()
                .field(&path)
                .ok_or_else(|| self.field_not_found(&path))?;
            Ok((field.id, update))
        });
        self.update_settings(UpdateConfig {
            field_metadata: by_id.collect::<Result<_>>()?,
            ..UpdateConfig::default()
        })
    }

    fn update_settings(&self, update: UpdateConfig) -> Result<Self> {
        self.commit_own(Operation::UpdateConfig(update), &BTreeMap::new())
    }

    fn field_not_found(&self, path: &str) -> Error {
        let names: Vec<&str> = self
            .schema()
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        Error::invalid_input(format!("Field '{path}' not found.\nAvailable fields: {names:?}"))
    }
}
