//! The native module `glaive._glaive`.
