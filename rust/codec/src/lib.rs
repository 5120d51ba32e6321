//! Codecs of the Lance file format: bytes in, bytes out.
