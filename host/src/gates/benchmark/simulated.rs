//! The gate against simulated devices: what it accepts and rejects when the truth is known.

use std::time::Duration;

use super::simulation::{Noise, SimulatedDevice, simulate};
use super::{BenchmarkOutcome, BenchmarkPlan, Block, Experiment, Spending, StopReason, looks};
use crate::gates::GateStatus;
use crate::target::Target as _;

/// On these a gain of a few per cent can be seen.
const STEADY: [Noise; 3] = [Noise::Calm, Noise::HeavyTailed, Noise::Drifting];

fn experiment(noise: Noise, gain: f64, seed: u64) -> BenchmarkOutcome {
    let device = SimulatedDevice::new(noise, gain, seed.wrapping_mul(7919).wrapping_add(1));
    let plan = BenchmarkPlan { seed, ..BenchmarkPlan::default() };
    simulate(&device, &plan).expect("simulated runs")
}

#[test]
fn an_unchanged_program_is_never_accepted() {
    for noise in Noise::ALL {
        for seed in 0..6 {
            let outcome = experiment(noise, 1.0, seed);
            assert_ne!(outcome.report.status, GateStatus::Pass, "{noise:?} {seed}: {}", outcome.report.summary);
        }
    }
}

#[test]
fn a_gain_below_the_asked_one_is_hardly_ever_accepted() {
    let accepted: usize = Noise::ALL
        .iter()
        .flat_map(|&noise| (0..4).map(move |seed| experiment(noise, 1.015, seed)))
        .filter(|outcome| outcome.report.status == GateStatus::Pass)
        .count();
    assert!(accepted <= 1, "{accepted} of 36");
}

#[test]
fn a_large_gain_is_accepted_soon_where_the_device_allows() {
    for noise in STEADY {
        for seed in 0..6 {
            let outcome = experiment(noise, 1.5, seed);
            assert_eq!(outcome.report.status, GateStatus::Pass, "{noise:?} {seed}: {}", outcome.report.summary);
            assert!(outcome.before.blocks.len() <= 12, "{noise:?} {seed}: {} pairs", outcome.before.blocks.len());
            let interval = outcome.interval.expect("interval");
            assert!(interval.low > 1.3 && interval.high < 1.7, "{noise:?} {seed}: {interval:?}");
        }
    }
    let calm = experiment(Noise::Calm, 1.5, 0);
    assert_eq!((calm.before.blocks.len(), calm.stop), (9, StopReason::Faster), "{}", calm.report.summary);
}

#[test]
fn a_small_gain_is_found_where_a_trend_or_outliers_could_hide_it() {
    for noise in STEADY {
        let accepted = (0..20).filter(|&seed| experiment(noise, 1.05, seed).report.status == GateStatus::Pass).count();
        assert!(accepted >= 19, "{noise:?}: {accepted} of 20");
    }
}

#[test]
fn a_slower_program_is_rejected_and_called_slower() {
    for noise in STEADY {
        for seed in 0..6 {
            let outcome = experiment(noise, 0.8, seed);
            assert_eq!(outcome.report.status, GateStatus::Fail, "{noise:?} {seed}: {}", outcome.report.summary);
            assert!(outcome.report.summary.starts_with("Slower: "), "{}", outcome.report.summary);
        }
    }
}

#[test]
fn a_slower_program_is_accepted_on_no_device() {
    for noise in Noise::ALL {
        for seed in 0..6 {
            let outcome = experiment(noise, 0.9, seed);
            assert_ne!(outcome.report.status, GateStatus::Pass, "{noise:?} {seed}: {}", outcome.report.summary);
        }
    }
}

#[test]
fn two_modes_are_told_with_their_shares() {
    let outcome = experiment(Noise::BimodalByProcess, 1.03, 3);
    assert_eq!(outcome.report.status, GateStatus::Inconclusive);
    assert!(outcome.report.summary.contains("runs in 2 ways ("), "{}", outcome.report.summary);
    let shares: f64 = outcome.before.modes.iter().map(|mode| mode.share).sum();
    assert!(outcome.before.modes.len() == 2 && (shares - 1.0).abs() < 1e-9, "{:?}", outcome.before.modes);
    assert!(outcome.report.facts.iter().any(|fact| fact.name == "not calm"));
}

#[test]
fn the_interval_agrees_with_the_verdict() {
    for noise in Noise::ALL {
        for (seed, gain) in [(0, 1.0), (1, 1.1), (2, 1.5)] {
            let outcome = experiment(noise, gain, seed);
            let interval = outcome.interval.expect("at least two rounds");
            let ratio = outcome.ratio.expect("a ratio");
            assert!(interval.low <= ratio && ratio <= interval.high, "{noise:?} {gain}: {}", outcome.report.summary);
            let clear = match outcome.stop {
                StopReason::Faster => interval.low > 1.0199,
                StopReason::NotFaster => interval.high < 1.0201,
                StopReason::Pairs => interval.low < 1.0201 && interval.high > 1.0199,
                StopReason::Budget => false,
            };
            assert!(clear, "{noise:?} {gain}: {}", outcome.report.summary);
        }
    }
}

#[test]
fn on_a_busy_processor_the_undisturbed_runs_are_compared() {
    for seed in 0..8 {
        let faster = experiment(Noise::Sliced, 1.5, seed);
        let ratio = faster.ratio.expect("ratio");
        if faster.statistic == super::Statistic::FastestTenth {
            assert_eq!(faster.report.status, GateStatus::Pass, "{seed}: {}", faster.report.summary);
            assert!((ratio - 1.5).abs() < 0.05, "{seed}: {}", faster.report.summary);
            assert!(faster.report.summary.contains("other work keeps the processors busy"));
        }
    }
    let busy = experiment(Noise::Sliced, 1.0, 2);
    assert_eq!(busy.statistic, super::Statistic::FastestTenth, "{}", busy.report.summary);
}

#[test]
fn every_sample_is_kept_with_its_place() {
    let outcome = experiment(Noise::Calm, 1.5, 1);
    let mut positions: Vec<u32> =
        outcome.before.blocks.iter().chain(&outcome.after.blocks).map(|block| block.position).collect();
    positions.sort_unstable();
    assert_eq!(positions, (0..18).collect::<Vec<u32>>());
    for round in 0..3 {
        let of_round = |blocks: &[super::Block]| blocks.iter().filter(|block| block.round == round).count();
        assert_eq!((of_round(&outcome.before.blocks), of_round(&outcome.after.blocks)), (3, 3));
    }
    let count: usize = outcome.before.blocks.iter().chain(&outcome.after.blocks).map(|b| b.samples_ns.len()).sum();
    assert_eq!(outcome.ratio_measured().expect("ratio").samples, count as u64);
}

#[test]
fn a_hot_device_that_tells_is_given_time_to_cool_and_not_more_than_the_budget_allows() {
    let plan = BenchmarkPlan { max_pairs: 12, min_pairs: 12, ..BenchmarkPlan::default() };
    let of = |device: SimulatedDevice| simulate(&device, &plan).expect("simulated runs");
    let silent = of(SimulatedDevice::new(Noise::Throttling, 1.05, 1));
    assert_eq!(silent.conditions, None);
    let telling = of(SimulatedDevice::new(Noise::Throttling, 1.05, 1).telling());
    let conditions = telling.conditions.as_ref().expect("told");
    assert!(conditions.throttled_blocks > 0 && conditions.cool_down_seconds >= 20.0, "{conditions:?}");
    assert!(conditions.cool_down_seconds <= 75.0, "a quarter of 300 s");
    let notes = telling.caveats();
    assert!(notes.iter().any(|note| note.contains("s to cool")), "{notes:?}");
    let calm = of(SimulatedDevice::new(Noise::Calm, 1.05, 1).telling());
    assert_eq!(calm.conditions.expect("told").cool_down_seconds, 0.0);
}

#[test]
fn a_process_warms_up_until_its_times_stop_falling() {
    let outcome = experiment(Noise::Calm, 1.5, 1);
    for block in outcome.before.blocks.iter().chain(&outcome.after.blocks) {
        let (first, last) = (block.warmup_ns[0], block.warmup_ns[block.warmup_ns.len() - 1]);
        assert!(first > 2 * last && block.warmup_ns.len() >= 5, "{:?}", block.warmup_ns);
    }
    assert!((5.0..9.0).contains(&outcome.before.warmup_runs), "{}", outcome.before.warmup_runs);
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let without_time = |mut outcome: BenchmarkOutcome| {
        outcome.report.seconds = 0.0;
        outcome
    };
    let first = without_time(experiment(Noise::Loaded, 1.2, 5));
    assert_eq!(first, without_time(experiment(Noise::Loaded, 1.2, 5)));
}

#[test]
fn a_gain_that_the_bare_figures_do_not_show_is_not_accepted() {
    let undisturbed = |fast: u64, slow: u64| [vec![fast; 3], vec![slow; 7]].concat();
    let of = |before: Vec<u64>, after: Vec<u64>| {
        let plan = BenchmarkPlan { max_pairs: 9, min_pairs: 9, ..BenchmarkPlan::default() };
        let mut experiment = Experiment::new(&plan);
        for _ in 0..3 {
            for (is_before, position) in experiment.next_order() {
                let samples_ns = if is_before { before.clone() } else { after.clone() };
                experiment.add(is_before, Block { round: experiment.round, position, samples_ns, ..Block::default() });
            }
            experiment.round += 1;
        }
        let [(9, spends)] = looks(&plan)[..] else { panic!("one look") };
        let stop = experiment.look(&plan, spends).unwrap_or(StopReason::Pairs);
        let target = SimulatedDevice::new(Noise::Calm, 1.0, 1).label();
        experiment.conclude(target, &plan, stop, Duration::from_secs(1))
    };
    let outcome = of(undisturbed(1_000_000, 1_200_000), undisturbed(1_000_000, 1_000_000));
    assert!(outcome.looks[0].is_clear(), "the order of the blocks is clear: {:?}", outcome.looks);
    assert_eq!(outcome.report.status, GateStatus::Inconclusive);
    let told = "over all samples the medians are 1.20 ms → 1.00 ms and the fastest tenths 1.00 ms → 1.00 ms, which \
                does not show that gain";
    assert!(outcome.report.summary.contains(told), "{}", outcome.report.summary);
    let outcome = of(undisturbed(1_200_000, 1_200_000), undisturbed(1_000_000, 1_000_000));
    assert_eq!(outcome.report.status, GateStatus::Pass, "{}", outcome.report.summary);
}

#[test]
fn the_looks_together_spend_what_is_allowed() {
    for max_pairs in [6, 9, 12, 36, 60] {
        let plan = BenchmarkPlan { max_pairs, ..BenchmarkPlan::default() };
        let looks = looks(&plan);
        let spent = |of: fn(&Spending) -> f64| looks.iter().map(|(_, spends)| of(spends)).sum::<f64>();
        assert!((spent(|spends| spends.accept) - 0.001).abs() < 1e-12, "{looks:?}");
        assert!((spent(|spends| spends.reject) - 0.01).abs() < 1e-12, "{looks:?}");
    }
}

#[test]
fn a_budget_that_is_too_small_ends_without_a_verdict() {
    let device = SimulatedDevice::new(Noise::Calm, 2.0, 1);
    let plan = BenchmarkPlan { budget: Duration::from_millis(1), ..BenchmarkPlan::default() };
    let outcome = simulate(&device, &plan).expect("simulated runs");
    assert_eq!((outcome.report.status, outcome.stop), (GateStatus::Inconclusive, StopReason::Budget));
    assert!(outcome.report.summary.starts_with("Not measured"), "{}", outcome.report.summary);
}
