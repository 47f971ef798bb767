//! `cargo xtask bench statistics`: the benchmark gate on simulated devices, beside other rules; writes
//! `docs/measurement.md` and its plots.
//!
//! What is measured is the gate itself, `gates::benchmark::benchmark`, on a target that answers with times
//! drawn from a known distribution. The seeds are fixed: the same sources write the same page.

mod bootstrap;
mod experiments;
mod page;
mod plots;
mod rivals;

use std::time::Instant;

use delegate_doctor::files::write_atomic;
use delegate_doctor::gates::benchmark::BenchmarkPlan;
use delegate_doctor::gates::benchmark::simulation::Noise;

use crate::workspace::{Result, root};
use experiments::{Coverage, Setting, Tally};
use rivals::Rival;

/// Experiments with a gain that must not be accepted: enough to tell 1 % from half of it.
const FALSE_ACCEPTS: u32 = 4_000;
/// Experiments with a gain that should be.
const POWER: u32 = 1_000;
/// Experiments for an interval's coverage, where every one costs a bootstrap.
const COVERAGE: u32 = 500;

/// True gains that are asked about: none, the one that is asked for, and larger ones.
const GAINS: [f64; 6] = [1.0, THRESHOLD, 1.03, 1.05, 1.1, 1.5];
/// The gain that a program must have.
const THRESHOLD: f64 = 1.02;
/// The gain whose power the goals are about.
const SMALL: f64 = 1.05;
/// Devices on which a small gain must be found.
const SEEING: [Noise; 3] = [Noise::Calm, Noise::HeavyTailed, Noise::Drifting];

/// Everything about one kind of device.
#[derive(Debug)]
struct Device {
    noise: Noise,
    /// by gain, in the order of [`GAINS`]
    gate: Vec<Tally>,
    /// by rival, then by gain
    rivals: Vec<Vec<Tally>>,
    /// the smallest design of fixed size with the power of the gate at [`SMALL`]; none up to the largest
    fixed: Option<Fixed>,
    coverage: Coverage,
}

/// A design of fixed size.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    pairs: u32,
    tally: Tally,
}

/// Runs every experiment and writes the page with its plots.
pub(crate) fn bench() -> Result {
    let begin = Instant::now();
    let devices = Noise::ALL.into_iter().map(device).collect::<Result<Vec<_>>>()?;
    let folder = root().join("docs");
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        write_atomic(&path, text.as_bytes()).map_err(|error| format!("`{}`: {error}", path.display()))
    };
    fs_err::create_dir_all(folder.join("measurement")).map_err(|error| error.to_string())?;
    write("measurement/accepted.svg", plots::accepted(&devices))?;
    write("measurement/samples.svg", plots::samples(&devices))?;
    let page = page::markdown(&devices);
    print!("{page}");
    eprintln!("{:.0} s", begin.elapsed().as_secs_f64());
    write("measurement.md", page)
}

fn device(noise: Noise) -> Result<Device> {
    eprintln!("==> {}", noise.name());
    let plan = BenchmarkPlan { min_gain: THRESHOLD, ..BenchmarkPlan::default() };
    let setting =
        |gain: f64| Setting { noise, gain, experiments: if gain > THRESHOLD { POWER } else { FALSE_ACCEPTS } };
    let gate = GAINS.into_iter().map(|gain| setting(gain).gate(&plan)).collect::<Result<Vec<_>>>()?;
    let rivals = Rival::ALL
        .into_iter()
        .map(|rival| GAINS.into_iter().map(|gain| setting(gain).rival(rival)).collect())
        .collect::<Result<Vec<_>>>()?;
    let wanted = GAINS.iter().zip(&gate).find(|(gain, _)| **gain == SMALL).map_or(1.0, |(_, tally)| tally.rate());
    let fixed = fixed_design(setting(SMALL), &plan, wanted)?;
    let coverage = Setting { experiments: COVERAGE, ..setting(SMALL) }.coverage(&plan)?;
    Ok(Device { noise, gate, rivals, fixed, coverage })
}

/// The smallest number of pairs, decided in advance, at which one look that may spend the whole error has
/// the power that is wanted, but for half a point of chance.
fn fixed_design(setting: Setting, plan: &BenchmarkPlan, wanted: f64) -> Result<Option<Fixed>> {
    let of = |pairs: u32| -> Result<Fixed> {
        let plan = BenchmarkPlan { min_pairs: pairs, max_pairs: pairs, ..plan.clone() };
        Ok(Fixed { pairs, tally: setting.gate(&plan)? })
    };
    let enough = |fixed: &Fixed| fixed.tally.rate() >= wanted - 0.005;
    let sizes: Vec<u32> = (2..=20).map(|rounds| rounds * 3).collect();
    let (mut from, mut to) = (0, sizes.len());
    let mut best = None;
    while from < to {
        let middle = usize::midpoint(from, to);
        let Some(&pairs) = sizes.get(middle) else { break };
        let fixed = of(pairs)?;
        if enough(&fixed) {
            best = Some(fixed);
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    Ok(best)
}
