//! Gate 5.
