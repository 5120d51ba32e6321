//! The one place that maps errors of the engine to the classes of `glaive.errors`.

use std::ffi::CString;

use arrow_schema::ArrowError;
use glaive_file::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Where an error happened, when its kind alone does not name the class.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// Opening a dataset or one of its versions: what is missing is the dataset.
    Open,
    /// Writing: wrong input is also an `OSError`, as in pylance.
    Write,
    /// Naming versions: what is missing or exists is a tag, a branch or a version.
    Ref,
    /// Everything else.
    Other,
}

/// Issues each text as a `UserWarning` of the Python frame so many levels up.
pub fn warn(py: Python<'_>, texts: &[String], stack_level: i32) -> PyResult<()> {
    let category = py.get_type::<pyo3::exceptions::PyUserWarning>();
    for text in texts {
        let text = CString::new(text.replace('\0', " "))?;
        PyErr::warn(py, &category, &text, stack_level)?;
    }
    Ok(())
}

/// Runs work of the engine without holding the interpreter; an error names `place`.
pub fn run_at<T: Send>(
    py: Python<'_>,
    place: &str,
    during: During,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    py.detach(work)
        .map_err(|error| to_py(py, &located(error, place), during))
}

/// The error with its place, unless its text names it already.
pub fn located(error: Error, place: &str) -> Error {
    if error.to_string().contains(place) {
        error
    } else {
        error.context(place)
    }
}

/// The Python exception of an error.
pub fn to_py(py: Python<'_>, error: &Error, during: During) -> PyErr {
    if let Some(raised) = python_cause(py, error) {
        return raised;
    }
    let text = error.to_string();
    match (error.kind(), during) {
        (ErrorKind::CommitConflict { retryable }, _) => conflict(py, text, retryable),
        (kind, during) => raise(py, class_name(kind, during), text),
    }
}

fn class_name(kind: ErrorKind, during: During) -> &'static str {
    match (kind, during) {
        (ErrorKind::NotFound, During::Open) => "DatasetNotFoundError",
        (ErrorKind::NotFound, During::Ref) => "RefNotFoundError",
        (ErrorKind::AlreadyExists, During::Ref) => "RefConflictError",
        (ErrorKind::NotFound, _) => "FileMissingError",
        (ErrorKind::AlreadyExists, _) => "DatasetAlreadyExistsError",
        (ErrorKind::InvalidInput, During::Write | During::Ref) => "InvalidWriteError",
        (ErrorKind::InvalidInput, _) => "InvalidInputError",
        (ErrorKind::SchemaMismatch, _) => "SchemaMismatchError",
        (ErrorKind::Corrupt, _) => "CorruptFileError",
        (ErrorKind::Unsupported, _) => "UnsupportedError",
        _ => "IoError",
    }
}

/// The error that a stream of the engine gave.
pub fn of_stream(error: ArrowError, place: &str) -> Error {
    let own = match error {
        ArrowError::ExternalError(source) => match source.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::new(ErrorKind::Io, other.to_string()),
        },
        other => other.into(),
    };
    located(own, place)
}

/// An exception of a class of `glaive.errors`.
pub fn raise(py: Python<'_>, class: &str, text: String) -> PyErr {
    // Exactly one argument: OSError reads two as errno and text.
    let class = py
        .import("glaive.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.cast_into::<PyType>().map_err(PyErr::from));
    match class {
        Ok(class) => PyErr::from_type(class, (text,)),
        Err(error) => error,
    }
}

fn conflict(py: Python<'_>, text: String, retryable: bool) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match CLASS.import(py, "glaive.commit", "CommitConflictError") {
        Ok(class) => PyErr::from_type(class.clone(), (text, retryable)),
        Err(error) => error,
    }
}

/// What a lock is told whose commit did not succeed.
pub fn lost_race(py: Python<'_>) -> PyErr {
    conflict(py, "the version was not created".to_owned(), true)
}

/// An exception that a Python callback raised and the engine passed on.
fn python_cause(py: Python<'_>, error: &Error) -> Option<PyErr> {
    let source = std::error::Error::source(error)?;
    Some(source.downcast_ref::<PyErr>()?.clone_ref(py))
}
