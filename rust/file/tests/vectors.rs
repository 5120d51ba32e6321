//! Files and pages that pylance wrote decode as stated.
