//! The generated pages of `docs/`.

use delegate_doctor::profile::category::Category;

use delegate_doctor::report::notable;

use crate::workspace::{Result, root};

/// What of other tools is read and where it goes, what is compared and what is projected; ends with the head of the
/// table of insights.
const RECORDINGS: &str = "
## Recordings

`profile` and `compare` take them by their content, whatever their names. Where one file holds several profiles, a name \
behind `#` picks one: `manifest.json#sme2_on`. Only numbers that were measured are read.

| recording | what becomes of it |
|---|---|
| ETDump (`.etdp`, `.etdump`) | every event of every run |
| `profile.json` or its run folder | as it was |
| run folder of `optimize` | the traces of the original and, for `compare`, of the repaired program |
| table of ExecuTorch's Inspector (`save_data_to_tsv`, `to_dataframe().to_csv`) | `event_name`, `p50` or else `avg` in any unit of time, `is_delegated_op`; one number for each event, without its spread |
| `*_timeline.csv` of Arm's SME2 kit | `run_index`, `name`, `start_us`, `duration_ms`, `delegate_backend`, `block`: every event of every run; numbers of instructions follow from the order |
| `*_ops_stats.csv` of the kit | `name`, `total_ms`, `delegate_backend`: totals over all runs |
| `manifest.json` of the kit | `results[].experiment` names the profiles, `threads` goes to the label, `artifacts` leads to a timeline, a trace or totals |
| `analysis_summary.json` of the kit | `category_totals_ms`, `per_etdump[].categories_ms`: Convolution → Conv2D, GEMM → GEMM/Linear, Data Movement → DataMovement, Elementwise, Other |
| report of ArmFit | `baseline` and `sme2` with `total_time_ms` and `categories[]`; refused where `measured` is false |

## What ArmFit and the kit report, and where it is here

| there | here |
|---|---|
| ArmFit `baseline`, `sme2`: `label`, `total_time_ms`, `categories[]{category, time_ms, pct, op_count}` | `compare`: `before` and `after` with `subject`; `method`; `categories[]{category, kernels, change}` with both shares |
| ArmFit `bottlenecks[]{rank, category, time_ms, pct, impact, op_count}` | `profile`: `breakdown.bottlenecks[]{family, category, time, share, impact, kernels, at_most}`, in order |
| ArmFit `comparison.rows[]{off_ms, on_ms, delta_ms, delta_pct}` | `compare`: `change{before, after, delta, ratio, significant}`, each labelled |
| ArmFit `overall_speedup_pct`, `top_bottleneck_before`, `top_bottleneck_after` | `compare`: `method.ratio`, `untraced.ratio`, `top` |
| ArmFit `measured`, `mode`, `generated_at` | `evidence` of every number, with its target and samples; `run.json` of the run folder has the date |
| ArmFit `insights[]` | `insights[]{code, text, next}` |
| kit `category_totals_ms`, `per_etdump[]` | `breakdown.categories[]`, one document for each trace |
| kit `metrics{runs, threads, latency_ms, median_ms, min_ms, max_ms}` | `untraced` with its interval and samples, `threads` |
| kit `kernel_hints` | `breakdown.rows[].name`: XNNPACK's names tell kernel and type |
| kit `executorch{actual_sha, dirty}` | versions in `run.json` |

## Two profiles

Times are divided by each other only where both sides come from the same target with as many threads; else they stand \
side by side. A difference is significant when the two intervals do not meet; the interval of a ratio holds the true \
ratio whenever both times lie in theirs, so it is wider than need be. Two programs that run on the same target with \
inputs of the same kind are also measured alternately, without a tracer, as the benchmark gate does it, and that outranks \
the traced times. Under emulation only the kernels that were chosen are compared.

## What SME2 may gain

`--project sme2` adds a range, PROJECTED and never mixed with what was measured: convolutions and matrix products in \
delegates become 1.83 to 12.33 times as fast, everything else stays. The ends are the least gain of a whole model and the \
largest of matrix products that Arm and PyTorch published (SqueezeSAM in INT8 on a phone; EdgeTAM's image encoder on \
Apple M4). Nothing is projected from emulated times, or where kernels for SME ran already.

## Worth knowing

Fixed rules over the numbers of a profile; silence when none applies.

| code | said when |
|---|---|
";

/// What `profile` shows, and which kernel counts as what.
fn profile_page() -> String {
    let mut page = String::from(
        "<!-- Written by `cargo xtask docs`. -->\n\n\
         # Where a program's time goes\n\n\
         `delegate-doctor profile MODEL` lowers a model, traces it on a target and shows every kernel; a `.pte` is \
         traced as it is, on inputs made up as it declares them; a recording of your app or of another tool is read, \
         which needs neither Python nor a target. `delegate-doctor compare A B` puts two of them side by side. \
         `--format json` and `--format csv` have all kernels, `--format chrome` is a timeline for \
         [Perfetto](https://ui.perfetto.dev), `--format html` is one page for a browser. A run folder keeps them as \
         `profile.json`, `timeline.json` and `profile.html`; with `--etrecord` also `original/etrecord.bin`, with which \
         ExecuTorch's Inspector names the operators of `original/trace.etdp`.\n\n\
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
    page.push_str(RECORDINGS);
    for (code, when) in notable::CATALOGUE {
        page.push_str(&format!("| `{code}` | {when} |\n"));
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
