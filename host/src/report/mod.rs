//! What a user sees of a run.
//!
//! In: a [`Report`](model::Report), the versioned record that the pipeline fills and the run folder
//! stores. Out: one HTML file ([`html`]), a terminal summary ([`terminal`]), an answer to "why"
//! ([`explain`]), and the JSON schema of the record ([`schema`]).
//!
//! Views only read the record: everything they show is in it, so an old run can be rendered again.
//! A figure reaches a view as [`Evidence`](crate::evidence::Evidence) and is printed by [`figures`],
//! which never drops the label; text from outside goes through [`visible`].

pub mod assemble;
pub mod breakdown;
pub mod comparison;
pub mod explain;
pub mod figures;
pub mod html;
pub mod layout;
pub mod model;
pub mod notable;
pub mod terminal;
pub mod timeline;
pub mod visible;
pub mod wording;

#[cfg(test)]
pub(crate) mod samples;

/// The JSON schema of [`model::Report`], as published in `docs/report.schema.json`.
pub fn schema() -> schemars::Schema {
    let mut schema = schemars::schema_for!(model::Report);
    let _ = schema.insert("title".to_owned(), "Delegate Doctor report".into());
    let _ = schema.insert(
        "description".to_owned(),
        format!(
            "What a run of Delegate Doctor found out, version {}. Readers ignore fields they do not know and refuse \
             a version above their own.",
            model::VERSION
        )
        .into(),
    );
    schema
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Set to anything, a stale schema file is written anew instead of failing the test.
    const UPDATE: &str = "UPDATE_REPORT_SCHEMA";

    #[test]
    fn the_published_schema_is_the_one_of_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
        let mut expected = serde_json::to_string_pretty(&super::schema()).expect("schema as JSON");
        expected.push('\n');
        if std::env::var_os(UPDATE).is_some() {
            fs_err::create_dir_all(path.parent().expect("docs folder")).expect("docs folder");
            crate::files::write_atomic(&path, expected.as_bytes()).expect("schema file");
        }
        let published = fs_err::read_to_string(&path).unwrap_or_default();
        assert!(
            published == expected,
            "`docs/report.schema.json` is stale; run the tests with {UPDATE}=1 and review it"
        );
    }
}
