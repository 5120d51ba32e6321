//! The Lance table engine.
