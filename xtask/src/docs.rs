//! The generated pages of `docs/`.

use delegate_doctor::profile::category::Category;

use crate::workspace::{Result, root};

/// What `profile` shows, and which kernel counts as what.
fn profile_page() -> String {
    let mut page = String::from(
        "<!-- Written by `cargo xtask docs`. -->\n\n\
         # Where a program's time goes\n\n\
         `delegate-doctor profile MODEL` lowers a model, traces it on a target and shows every kernel; \
         `delegate-doctor profile --etdump FILE` reads a trace that your app recorded, and needs neither Python nor a \
         target. `--format json` and `--format csv` have all kernels, `--format chrome` is a timeline for \
         [Perfetto](https://ui.perfetto.dev), `--format html` is one page for a browser. A run folder keeps them as \
         `profile.json`, `timeline.json` and `profile.html`.\n\n\
         - Times are medians over the traced runs, with the interval of the median at 95 % or at what so few runs can \
         give. Shares are of the method's own time.\n\
         - Two lines belong to no kernel: time in delegate calls that the delegate's own events do not explain (the \
         boundary, buffers, and rounding of the delegate's clock, which can make it negative), and time between \
         instructions. With them everything adds up to the method's time.\n\
         - *Layout, copies* is the time of kernels that only copy a tensor or bring it into another layout; it is part \
         of their categories too.\n\
         - *at most* is PROJECTED: how many times as fast the method would be if these kernels took no time at all, \
         1 / (1 − share), after Amdahl.\n\
         - The impact of a family of kernels is very high from 35 % of the time, high from 20 %, medium from 10 %.\n\
         - A kernel of an emulated CPU is one that an Arm CPU of that kind would run; its time means nothing.\n\n\
         ## Categories\n\n\
         A name that is in no table is listed as unknown, and not guessed.\n\n\
         | category | in XNNPACK | outside of delegates |\n|---|---|---|\n",
    );
    for category in Category::ALL {
        let row = [category.delegate_operators().join(", "), category.kernels().join(", ")];
        page.push_str(&format!("| {} | {} |\n", category.name(), row.join(" | ")));
    }
    page
}

/// Writes them, or with `check` fails when one is stale.
pub(crate) fn docs(check: bool) -> Result {
    let mut schema =
        serde_json::to_string_pretty(&delegate_doctor::report::schema()).map_err(|error| error.to_string())?;
    schema.push('\n');
    let pages = [
        ("cli.md", delegate_doctor::cli::reference_markdown()),
        ("report.schema.json", schema),
        ("sandbox.md", hostile_rules::page()),
        ("profile.md", profile_page()),
    ];
    for (name, text) in pages {
        let path = root().join("docs").join(name);
        if check {
            if fs_err::read_to_string(&path).ok().as_ref() != Some(&text) {
                return Err(format!("`docs/{name}` is stale; run `cargo xtask docs`"));
            }
        } else {
            delegate_doctor::files::write_atomic(&path, text.as_bytes()).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
