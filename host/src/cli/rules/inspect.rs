//! `rules inspect`: what a component says about itself, without running it.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::{Context, Format, read_component};
use crate::output::{Exit, Failure, style, styled};
use crate::report::figures::{self, counted};
use crate::sandbox::contract::{Manifest, Numerics, Stability};
use crate::sandbox::{Inspection, inspect_tier};

/// Look at a component without running it
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Look at a component without running it.\n\n\
        The bytes are parsed whole and held against the sandbox's limits; the manifest is the one that the build \
        wrote into the component. When the rule is loaded, it has to say the same of itself.",
    after_help = "\
Examples:
  delegate-doctor rules inspect my-rule/build/my-rule-0.1.0.wasm
  delegate-doctor rules inspect stranger.wasm --format json

The exit code is 2 when this version would not load it."
)]
pub(super) struct Arguments {
    /// The component
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// The JSON form; version 1.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    sha256: &'a str,
    bytes: usize,
    contract: String,
    sdk: Option<&'a str>,
    tier: &'static str,
    functions: usize,
    core_modules: usize,
    largest_body: usize,
    /// imports, which carry types only
    imports: &'a [String],
    exports: Vec<&'a str>,
    manifest: Option<&'a Manifest>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let bytes = read_component(&arguments.file)?;
    let refused = |reason: String| {
        Failure::new(format!("`{}` is no rule for this version: {reason}", arguments.file.display()))
            .hint("Build it with `delegate-doctor rules build`, or ask its author for another version")
    };
    let (inspection, tier) = inspect_tier(&bytes).map_err(|(_, reason)| refused(reason))?;
    let tier = tier.name();
    let printer = &context.printer;
    let written = match arguments.format {
        Format::Text => printer.data(&text(&inspection, tier)),
        Format::Json => printer.json(&Document {
            schema: "delegate-doctor/component",
            version: 1,
            sha256: &inspection.sha256,
            bytes: inspection.bytes,
            contract: inspection.contract.to_string(),
            sdk: inspection.sdk.as_deref(),
            tier,
            functions: inspection.functions,
            core_modules: inspection.core_modules,
            largest_body: inspection.largest_body,
            imports: &inspection.type_imports,
            exports: exports(&inspection),
            manifest: inspection.manifest.as_ref(),
        }),
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}

fn exports(inspection: &Inspection) -> Vec<&str> {
    std::iter::once(&inspection.interface).chain(&inspection.other_exports).map(String::as_str).collect()
}

fn text(inspection: &Inspection, tier: &str) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}  {}", styled(style::HEADING, format_args!("{name:<9}")), clean(value));
    };
    if let Some(manifest) = &inspection.manifest {
        row("rule", &format!("{} {}", manifest.id, manifest.version));
        row("title", &manifest.title);
        row("summary", &manifest.summary);
        row("class", class(manifest.numerics));
        row("stability", if manifest.stability == Stability::Preview { "preview" } else { "stable" });
        let ops: Vec<&str> = manifest.anchors.iter().flat_map(|anchor| &anchor.ops).map(String::as_str).collect();
        row("looks at", &ops.join(", "));
        for code in &manifest.codes {
            row("code", &format!("{}: {}", code.code, code.summary));
        }
    } else {
        row("rule", "no manifest in the component; it was not built with this tool");
    }
    row("contract", &inspection.contract.to_string());
    row("sdk", inspection.sdk.as_deref().unwrap_or("not told"));
    let modules = counted(inspection.core_modules as u64, "core module");
    let functions = counted(inspection.functions as u64, "function");
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let size = figures::bytes(inspection.bytes as f64);
    row("size", &format!("{size}, {modules}, {functions}, largest {} bytes", inspection.largest_body));
    row("tier", tier);
    let imports = inspection.type_imports.join(", ");
    row("imports", if imports.is_empty() { "none" } else { &imports });
    row("exports", &exports(inspection).join(", "));
    row("sha256", &inspection.sha256);
    text
}

fn clean(text: &str) -> String {
    crate::sandbox::printable(text, 4_096)
}

/// The claim as a word.
pub(super) fn class(numerics: Numerics) -> &'static str {
    match numerics {
        Numerics::Exact => "exact",
        Numerics::Tolerant(_) => "tolerant",
        Numerics::Corrective(_) => "corrective",
    }
}
