//! What a user sees of a run.
//!
//! In: a [`Report`](model::Report), the versioned record that the pipeline fills and the run folder
//! stores. Out: one HTML file ([`html`]), a terminal summary ([`terminal`]), an answer to "why"
//! ([`explain`]), and the JSON schema of the record ([`schema`]).
//!
//! Views only read the record: everything they show is in it, so an old run can be rendered again.
//! A figure reaches a view as [`Evidence`](crate::evidence::Evidence) and is printed by [`figures`],
//! which never drops the label.

pub mod model;
