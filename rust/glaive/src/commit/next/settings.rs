//! Operations on the maps and base paths of a table (format chapter 31, 4.11 and 4.13).

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use glaive_file::{Error, Field, Result, Schema};

use super::Next;
use crate::proto::lance::table::BasePath;
use crate::transaction::{UpdateConfig, UpdateMap};

impl Next {
    /// Edits config and metadata.
    pub(super) fn update_config(&mut self, update: &UpdateConfig) -> Result<()> {
        let manifest = &mut self.manifest;
        let maps = [
            (&update.config, &mut manifest.config),
            (&update.table_metadata, &mut manifest.table_metadata),
            (&update.schema_metadata, &mut manifest.schema.metadata),
        ];
        for (update, map) in maps {
            if let Some(update) = update {
                update.apply(map);
            }
        }
        for (id, update) in &update.field_metadata {
            let mut fields = manifest.schema.fields.iter_mut();
            if !fields.try_fold(false, |found, field| {
                Ok::<_, Error>(found || update_field(field, *id, update)?)
            })? {
                return Err(Error::invalid_input(format!(
                    "Field with id {id} does not exist in the schema"
                )));
            }
        }
        Ok(())
    }

    /// Adds base paths; id 0 asks for the smallest free one.
    pub(super) fn add_bases(&mut self, new: &[BasePath]) -> Result<()> {
        let bases = &mut self.manifest.base_paths;
        for base in new {
            let clash = bases.iter().find(|old| {
                old.path == base.path || old.name == base.name || (base.id != 0 && old.id == base.id)
            });
            if let Some(old) = clash {
                return Err(Error::invalid_input(format!(
                    "the base path {} (id {}) has the id, name or path of {} (id {})",
                    base.path, base.id, old.path, old.id
                )));
            }
            bases.push(BasePath {
                id: if base.id == 0 { free_id(bases) } else { base.id },
                ..base.clone()
            });
        }
        Ok(())
    }
}

/// The bases of a new table, numbered from 1 where no id is given.
pub(super) fn numbered_bases(bases: &[BasePath]) -> Vec<BasePath> {
    let mut numbered = bases.to_vec();
    for position in 0..numbered.len() {
        let free = free_id(&numbered);
        if let Some(base) = numbered.get_mut(position).filter(|base| base.id == 0) {
            base.id = free;
        }
    }
    numbered
}

fn free_id(bases: &[BasePath]) -> u32 {
    (1..)
        .find(|id| bases.iter().all(|base| base.id != *id))
        .unwrap_or(u32::MAX)
}

/// Edits the metadata of the field of that id in the tree; `false` if it is not there.
fn update_field(field: &mut Arc<Field>, id: i32, update: &UpdateMap) -> Result<bool> {
    if field.id != id {
        for position in 0..field.children.len() {
            if let Some(child) = Arc::make_mut(field).children.get_mut(position)
                && update_field(child, id, update)?
            {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let field = Arc::make_mut(field);
    let former = field.metadata.clone();
    update.apply(&mut field.metadata);
    let (primary, clustering) = keys(field)?;
    let fixed = |old: Option<u32>, new: Option<u32>| old.is_none() || old == new;
    if !fixed(field.primary_key, primary) || !fixed(field.clustering_key, clustering) {
        field.metadata = former;
        return Err(Error::invalid_input(format!(
            "the primary key and the clustering key cannot be changed once they are set (field '{}')",
            field.name
        )));
    }
    if field.primary_key.is_none() && primary.is_some() && field.nullable {
        return Err(Error::invalid_input(format!(
            "field '{}' is nullable and cannot be part of the primary key",
            field.name
        )));
    }
    (field.primary_key, field.clustering_key) = (primary, clustering);
    Ok(true)
}

/// The key positions that the metadata of a field gives it.
fn keys(field: &Field) -> Result<(Option<u32>, Option<u32>)> {
    let metadata = field.metadata.clone().into_iter().collect();
    let probe = ArrowField::new(&field.name, DataType::Boolean, field.nullable);
    let probe = ArrowSchema::new(vec![probe.with_metadata(metadata)]);
    let probe = Schema::try_from_arrow(&probe)?;
    let keys = |field: &Arc<Field>| (field.primary_key, field.clustering_key);
    Ok(probe.fields.first().map(keys).unwrap_or_default())
}
