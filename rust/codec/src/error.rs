//! What can go wrong in a codec, by what the caller can do about it.

use thiserror::Error;

/// Result of a codec.
pub type Result<T, E = CodecError> = std::result::Result<T, E>;

/// Failure of a codec. The message says what was wrong and where inside the buffer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes contradict the format or the value count: the file is damaged.
    #[error("corrupt data: {0}")]
    Corrupt(String),
    /// The bytes are legal, but this version does not read them.
    #[error("unsupported encoding: {0}")]
    Unsupported(String),
    /// The caller's arguments contradict each other.
    #[error("invalid argument: {0}")]
    Invalid(String),
}

pub(crate) fn corrupt<T>(message: impl Into<String>) -> Result<T> {
    Err(CodecError::Corrupt(message.into()))
}

pub(crate) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(CodecError::Invalid(message.into()))
}
