//! The command line as a user meets it: the real binary, its two streams, its exit code.
//!
//! No test here needs Python or the network. Snapshots are renewed by
//! `INSTA_UPDATE=always cargo test -p dd-tests --test cli` and read in review.

#[path = "cli/compile_rule.rs"]
mod compile_rule;
#[path = "cli/disk_copier.rs"]
mod disk_copier;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/generated.rs"]
mod generated;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/optimize.rs"]
mod optimize;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/project_file.rs"]
mod project_file;
#[path = "cli/reports.rs"]
mod reports;
#[path = "cli/rules.rs"]
mod rules;
