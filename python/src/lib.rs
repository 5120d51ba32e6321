//! The native module `glaive._glaive`: conversions and error mapping over the engine, and no rule of its own.

mod arrow;
mod blob;
mod cleanup;
mod dataset;
mod errors;
mod file;
mod fragment;
mod refs;
mod scan;
mod transaction;

use glaive_file::FileVersion;
use pyo3::prelude::*;

/// Keeps pages that were touched: fresh memory costs many times a copy.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Addresses of the buffers of a batch that was handed in, in the order of the Arrow layout.
#[pyfunction]
fn buffer_addresses(batch: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    Ok(arrow::buffer_addresses(&arrow::import_batch(batch)?))
}

#[pymodule]
fn _glaive(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("STABLE_VERSION", FileVersion::DEFAULT.as_str())?;
    module.add("DEFAULT_BATCH_SIZE", glaive::scan::DEFAULT_BATCH_SIZE)?;
    module.add_class::<dataset::PyDataset>()?;
    module.add_class::<blob::PyBlobHandle>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<file::PyFileReader>()?;
    module.add_class::<file::PyFileWriter>()?;
    module.add_function(wrap_pyfunction!(file::check_file_options, module)?)?;
    module.add_function(wrap_pyfunction!(file::number_fields, module)?)?;
    module.add_function(wrap_pyfunction!(buffer_addresses, module)?)?;
    module.add_function(wrap_pyfunction!(transaction::commit, module)?)?;
    module.add_function(wrap_pyfunction!(transaction::commit_batch, module)?)?;
    module.add_function(wrap_pyfunction!(dataset::scan_and_addresses, module)?)?;
    module.add_function(wrap_pyfunction!(refs::checkout, module)?)?;
    module.add_function(wrap_pyfunction!(refs::list_tags, module)?)?;
    module.add_function(wrap_pyfunction!(refs::tag_version, module)?)?;
    module.add_function(wrap_pyfunction!(refs::create_tag, module)?)?;
    module.add_function(wrap_pyfunction!(refs::update_tag, module)?)?;
    module.add_function(wrap_pyfunction!(refs::delete_tag, module)?)?;
    module.add_function(wrap_pyfunction!(refs::replace_tag_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(refs::list_branches, module)?)?;
    module.add_function(wrap_pyfunction!(refs::create_branch, module)?)?;
    module.add_function(wrap_pyfunction!(refs::delete_branch, module)?)?;
    module.add_function(wrap_pyfunction!(refs::replace_branch_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(cleanup::cleanup, module)?)?;
    module.add_function(wrap_pyfunction!(cleanup::plan_cleanup, module)?)?;
    module.add_function(wrap_pyfunction!(cleanup::migrate_manifest_paths_v2, module)?)?;
    module.add_function(wrap_pyfunction!(cleanup::version_numbers, module)?)?;
    Ok(())
}
