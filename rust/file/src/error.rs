//! Errors, classed by what a caller can do about them.
//!
//! Every error carries the thing at fault (path, column, page, offset) as context that is added while the
//! error unwinds, so that the place that finds a fault need not know where it is.

use std::fmt;

/// Result of this engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A table, version or file does not exist.
    NotFound,
    /// The table exists already.
    AlreadyExists,
    /// An argument is wrong.
    InvalidInput,
    /// Data does not fit the schema of the table or file.
    SchemaMismatch,
    /// Stored bytes break the rules of the format.
    Corrupt,
    /// A legal feature that this version does not implement.
    Unsupported,
    /// Another writer was faster. `retryable`: doing the work again on the latest version can succeed.
    CommitConflict {
        /// Whether redoing the operation on the latest version can succeed.
        retryable: bool,
    },
    /// The operating system or the store failed.
    Io,
}

/// An error with its kind, its text, the context in which it happened and its cause.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of the given kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            context: Vec::new(),
            source: None,
        }))
    }

    /// [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// [`ErrorKind::AlreadyExists`].
    pub fn already_exists(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::AlreadyExists, message)
    }

    /// [`ErrorKind::InvalidInput`].
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// [`ErrorKind::SchemaMismatch`].
    pub fn schema_mismatch(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::SchemaMismatch, message)
    }

    /// [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// [`ErrorKind::Unsupported`]. The message names the feature.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text without context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Adds where it happened, outermost last: `err.context("page 3").context("column 'a'")`.
    #[must_use]
    pub fn context(mut self, place: impl Into<String>) -> Self {
        self.0.context.push(place.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.0.context.iter().rev() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => ErrorKind::NotFound,
            std::io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}

impl From<glaive_codec::CodecError> for Error {
    fn from(error: glaive_codec::CodecError) -> Self {
        use glaive_codec::CodecError;
        let kind = match &error {
            CodecError::Corrupt(_) => ErrorKind::Corrupt,
            CodecError::Unsupported(_) => ErrorKind::Unsupported,
            _ => ErrorKind::InvalidInput,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<prost::DecodeError> for Error {
    fn from(error: prost::DecodeError) -> Self {
        Self::corrupt(format!("protobuf message: {error}")).with_source(error)
    }
}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        // A failing input stream keeps the text of its own exception.
        Self::new(ErrorKind::Io, error.to_string()).with_source(error)
    }
}

/// Adds context to the error of a result.
pub trait Context<T> {
    /// Adds where it happened; the closure runs only on failure.
    fn context<C: Into<String>>(self, place: impl FnOnce() -> C) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn context<C: Into<String>>(self, place: impl FnOnce() -> C) -> Result<T> {
        self.map_err(|e| e.into().context(place()))
    }
}
