//! Chooses the best of several settings from interleaved runs.
//!
//! The settings take turns, so that a drift in the speed of the machine affects them equally. We
//! drop a setting as soon as it is slower than the fastest beyond noise, so that the time goes to
//! those that are still in doubt.
//!
//! Neighbouring runs are not independent, because the load of the machine comes and goes. Therefore
//! the order of the settings in each round is random, and we compare two settings only by rounds in
//! which both have run. If a setting changes nothing, chance alone decides which of two runs of a
//! round is the slower one, whatever the load does. From this we compute how likely an apparent
//! difference is (a randomisation test).
//!
//! Source: R. A. Fisher, "The Design of Experiments" (1935); F. Wilcoxon, "Individual comparisons by
//! ranking methods" (1945); Bonferroni's inequality.

use creel_stats::{Estimate, Summary, noise::Noise};
use std::time::Duration;

/// The number of rounds after which we drop settings that are not slower beyond doubt (see
/// [`CLEAR`]). With fewer runs, the interval of a ratio is too wide.
pub const ROUNDS_LEAST: usize = 4;
/// The largest number of rounds. More do not pay.
const ROUNDS_MOST: usize = 40;
/// Settings whose times differ by less than this factor count as equally fast.
const EQUAL: f64 = 1.03;
/// A setting is slower beyond doubt if its fastest run takes this factor longer than the slowest
/// run of another. We need this rule because no test can show a difference with two or three runs.
const CLEAR: f64 = 2.0;
/// The largest probability with which we recommend a change although none of the settings is
/// better.
const LEVEL: f64 = 0.01;
/// The largest number of rounds for which we count all outcomes of chance. For more rounds, we take
/// a random sample of as many outcomes as this number of rounds has.
const COUNTED_MOST: usize = 12;
/// The largest number of rounds that we compare, which are the last ones. A random number has that
/// many bits.
const PAIRS_MOST: usize = 53;
/// A cheaper setting is worth a change only if it saves this share of the CPU time.
const SAVES: f64 = 0.1;
/// The saving must also be at least this share of one CPU. A program that mostly sleeps uses almost
/// no CPU time, and a tenth of that is not worth a change.
const SAVES_OF_A_CPU: f64 = 0.02;

/// The cost of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub wall_s: f64,
    pub cpu_s: f64,
    /// NaN if it is unknown.
    pub peak_bytes: f64,
}

/// The reason why a setting does not run again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dropped {
    /// The setting was slower than the fastest one beyond noise.
    Slower,
    /// The program failed with this exit code.
    Failed(i32),
    /// A run took so much longer than the program without creel that we ended it after this time.
    Stopped(Duration),
}

/// The runs of one setting.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// The round and the cost of each run, in the order of the rounds.
    pub costs: Vec<(usize, Cost)>,
    pub dropped: Option<Dropped>,
}

impl Runs {
    /// Returns whether the setting still takes part.
    pub fn is_open(&self) -> bool {
        self.dropped.is_none()
    }

    /// Returns whether the setting has run and may be recommended.
    pub fn is_usable(&self) -> bool {
        !self.costs.is_empty() && matches!(self.dropped, None | Some(Dropped::Slower))
    }

    /// Returns the median of a figure, or infinity without a run.
    pub fn median(&self, figure: fn(&Cost) -> f64) -> f64 {
        let values: Vec<f64> = self.costs.iter().map(|(_, cost)| figure(cost)).collect();
        Summary::of(&values).map_or(f64::INFINITY, |summary| summary.median)
    }

    /// Returns a figure of this setting and of another, for each round in which both have run.
    fn pairs(&self, other: &Runs, figure: fn(&Cost) -> f64) -> Vec<(f64, f64)> {
        let mut others = other.costs.iter().peekable();
        let pair = |(round, cost): &(usize, Cost)| {
            while others.next_if(|(earlier, _)| earlier < round).is_some() {}
            let (_, other) = others.next_if(|(same, _)| same == round)?;
            Some((figure(cost), figure(other)))
        };
        self.costs.iter().filter_map(pair).collect()
    }

    /// Returns the ratio of a figure to that of `base`.
    fn ratio_of(&self, base: &Runs, figure: fn(&Cost) -> f64) -> Option<Estimate> {
        let pairs = self.pairs(base, figure);
        Estimate::of(pairs.into_iter().map(|(own, base)| own / base))
    }

    /// Returns the ratio of the wall times to those of `base`.
    pub fn ratio(&self, base: &Runs) -> Option<Estimate> {
        self.ratio_of(base, |cost| cost.wall_s)
    }

    /// Returns whether every run is much slower than every run of `other`.
    fn is_clearly_slower(&self, other: &Runs) -> bool {
        let pairs = self.pairs(other, |cost| cost.wall_s);
        pairs.len() > 1 && least(&pairs) > CLEAR * most(&pairs)
    }

    /// Returns whether a figure is larger than that of `other` beyond noise. `comparisons` is the
    /// number of settings among which `other` was chosen. With more of them, it is more likely that
    /// chance alone makes one of them look good.
    fn exceeds(&self, other: &Runs, figure: fn(&Cost) -> f64, comparisons: usize) -> bool {
        let pairs = self.pairs(other, figure);
        let n = pairs.len();
        if n < 2 {
            return false;
        }
        let level = LEVEL / comparisons.max(1) as f64;
        // With few rounds, there are not enough outcomes of chance to count. It is then more
        // telling if every figure of one setting is larger than every figure of the other. For n
        // runs each, this is one outcome of (2n over n).
        let separate = (1..=n).map(|i| i as f64 / (n + i) as f64).product::<f64>();
        least(&pairs) > CLEAR * most(&pairs)
            || least(&pairs) > most(&pairs) && separate <= level
            || chance(&pairs) <= level
    }

    /// Returns whether this setting costs less CPU time than `other`, by enough to matter and
    /// beyond noise.
    fn is_cheaper(&self, other: &Runs, comparisons: usize) -> bool {
        let cpu_s: fn(&Cost) -> f64 = |cost| cost.cpu_s;
        let saved_s = other.median(cpu_s) - self.median(cpu_s);
        let is_worth_it = saved_s > SAVES_OF_A_CPU * other.median(|cost| cost.wall_s);
        let ratio = self.ratio_of(other, cpu_s);
        is_worth_it
            && ratio.is_some_and(|ratio| ratio.factor() <= 1.0 - SAVES)
            && other.exceeds(self, cpu_s, comparisons)
    }
}

/// Returns the smallest of the first figures of all pairs.
fn least(pairs: &[(f64, f64)]) -> f64 {
    pairs
        .iter()
        .map(|pair| pair.0)
        .fold(f64::INFINITY, f64::min)
}

/// Returns the largest of the second figures of all pairs.
fn most(pairs: &[(f64, f64)]) -> f64 {
    pairs.iter().map(|pair| pair.1).fold(0.0, f64::max)
}

/// Returns the probability that chance alone makes the first figures look at least as much larger
/// as they do. Chance is a coin that decides in each round which of the two figures is the first.
///
/// We compare the sums of the ranks of the differences. A run that took very long has the highest
/// rank, but no more than that.
fn chance(pairs: &[(f64, f64)]) -> f64 {
    let pairs = &pairs[pairs.len().saturating_sub(PAIRS_MOST)..];
    let mut logs: Vec<f64> = pairs.iter().map(|(a, b)| (a / b).ln()).collect();
    if logs.iter().any(|log| !log.is_finite()) {
        return 1.0;
    }
    logs.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranked = || logs.iter().enumerate().map(|(i, log)| (i as u64 + 1, *log));
    // A difference of zero is in favour of neither.
    let seen: u64 = ranked()
        .filter(|(_, log)| *log > 0.0)
        .map(|(rank, _)| rank)
        .sum();
    let sum = |signs: u64| -> u64 {
        let chosen = ranked().filter(|(rank, _)| signs >> (rank - 1) & 1 == 1);
        chosen.map(|(rank, _)| rank).sum()
    };
    let outcomes = 1_u64 << logs.len().min(COUNTED_MOST);
    let mut noise = Noise(0);
    let mut signs = |i: u64| match logs.len() > COUNTED_MOST {
        true => (noise.even() * 2f64.powi(53)) as u64,
        false => i,
    };
    let as_large = (0..outcomes).filter(|&i| sum(signs(i)) >= seen).count();
    as_large.max(1) as f64 / outcomes as f64
}

/// Returns the setting with which the others are compared: the program as it is, or the first
/// setting that works. It runs in every round.
fn anchor(all: &[Runs]) -> usize {
    all.iter().position(Runs::is_usable).unwrap_or(0)
}

/// Returns the fastest setting.
pub fn fastest(all: &[Runs]) -> usize {
    let anchor = anchor(all);
    let time = |i: &usize| {
        let ratio = all[*i].ratio(&all[anchor]);
        ratio.map_or(f64::INFINITY, |ratio| ratio.log)
    };
    let open = (0..all.len()).filter(|&i| all[i].is_usable() && all[i].is_open());
    open.min_by(|a, b| time(a).total_cmp(&time(b)))
        .unwrap_or(anchor)
}

/// Drops the settings that are slower than the fastest beyond noise, except for the one with which
/// we compare the others.
pub fn prune(all: &mut [Runs]) {
    let (best, keep) = (fastest(all), anchor(all));
    let base = all[best].clone();
    let others = all.iter_mut().enumerate();
    for (_, runs) in others.filter(|(i, runs)| *i != keep && *i != best && runs.is_open()) {
        let rounds = runs.pairs(&base, |cost| cost.wall_s).len();
        let is_slower = |ratio: Estimate| rounds >= ROUNDS_LEAST && ratio.interval().0 > 1.0;
        if runs.is_clearly_slower(&base) || runs.ratio(&base).is_some_and(is_slower) {
            runs.dropped = Some(Dropped::Slower);
        }
    }
}

/// Returns whether more rounds would not change the answer.
pub fn is_decided(all: &[Runs]) -> bool {
    let open = || (0..all.len()).filter(|&i| all[i].is_open());
    let rounds = open().map(|i| all[i].costs.len()).min().unwrap_or(0);
    if rounds == 0 {
        // Even a single setting runs once, because the report has its cost.
        return open().next().is_none();
    }
    if open().count() <= 1 || rounds >= ROUNDS_MOST {
        return true;
    }
    let first = fastest(all);
    // The interval of each setting is then either inside of the tolerance or outside of it.
    let is_clear = |i: usize| {
        let interval = all[i].ratio(&all[first]).map(|ratio| ratio.interval());
        interval.is_some_and(|(low, high)| {
            high <= EQUAL || low > EQUAL && (i != 0 || is_beaten(all, first))
        })
    };
    rounds > ROUNDS_LEAST && open().all(|i| i == first || is_clear(i))
}

/// Returns whether the program as it is is slower than a setting beyond noise.
fn is_beaten(all: &[Runs], by: usize) -> bool {
    all[0].exceeds(&all[by], |cost| cost.wall_s, all.len() - 1)
}

/// Returns the setting to recommend. It is one of the settings that are as fast as the fastest. We
/// leave out those that cost more CPU time than another of them, and take the first of the rest,
/// because simple settings come first. The very first one is the program without creel. It counts
/// as equally fast unless it is slower beyond noise. A setting with which a run has failed is never
/// recommended.
pub fn best(all: &[Runs]) -> usize {
    let first = fastest(all);
    let is_equal = |&i: &usize| {
        let is_close = |ratio: Estimate| ratio.factor() <= EQUAL;
        all[i].is_usable()
            && (i == first
                || i == 0 && !is_beaten(all, first)
                || all[i].ratio(&all[first]).is_some_and(is_close))
    };
    let equal: Vec<usize> = (0..all.len()).filter(is_equal).collect();
    let is_cheap = |i: &&usize| {
        let mut others = equal.iter();
        !others.any(|&other| all[other].is_cheaper(&all[**i], all.len() - 1))
    };
    equal.iter().find(is_cheap).copied().unwrap_or(first)
}

/// Returns the settings in a random order.
pub fn shuffled(mut turn: Vec<usize>, noise: &mut Noise) -> Vec<usize> {
    for i in (1..turn.len()).rev() {
        let other = (noise.even() * (i + 1) as f64) as usize;
        turn.swap(i, other);
    }
    turn
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns runs of successive rounds with these wall and CPU times.
    fn measured(costs: impl IntoIterator<Item = (f64, f64)>) -> Runs {
        let cost = |(wall_s, cpu_s)| Cost {
            wall_s,
            cpu_s,
            peak_bytes: 1e6,
        };
        Runs {
            costs: costs.into_iter().map(cost).enumerate().collect(),
            dropped: None,
        }
    }

    /// Returns runs with this mean time and CPU time, and the noise of a shared machine.
    fn runs(noise: &mut Noise, wall_s: f64, cpu_s: f64, rounds: usize) -> Runs {
        measured((0..rounds).map(|_| (wall_s * noise.factor(), cpu_s)))
    }

    fn exact(wall_s: f64, cpu_s: f64) -> Runs {
        measured([(wall_s, cpu_s); 12])
    }

    #[test]
    fn a_setting_that_is_better_beyond_noise_is_chosen() {
        let noise = &mut Noise(7);
        let all = [
            runs(noise, 1.0, 2.0, 20),
            runs(noise, 0.5, 1.0, 20),
            runs(noise, 2.0, 1.0, 20),
        ];
        assert_eq!(best(&all), 1);
        let mut pruned = all.clone();
        prune(&mut pruned);
        let open: Vec<bool> = pruned.iter().map(Runs::is_open).collect();
        assert_eq!(open, [true, true, false], "the default is kept");
    }

    /// Measures programs with these mean times on a machine whose load comes and goes: it lasts for
    /// about `lasts` runs and makes them up to three times slower.
    fn trial(noise: &mut Noise, walls: &[f64], lasts: f64, rounds: usize) -> Vec<Runs> {
        let mut all = vec![Runs::default(); walls.len()];
        let (mut load, mut round) = (1.0, 0);
        while round < rounds && !is_decided(&all) {
            let open = (0..all.len()).filter(|&i| all[i].is_open());
            for i in shuffled(open.collect(), noise) {
                if noise.even() < 1.0 / lasts {
                    load = if noise.even() < 0.5 {
                        1.0
                    } else {
                        1.0 + 2.0 * noise.even()
                    };
                }
                let wall_s = walls[i] * load * noise.factor();
                let cost = Cost {
                    wall_s,
                    cpu_s: wall_s,
                    peak_bytes: 1e6,
                };
                all[i].costs.push((round, cost));
            }
            prune(&mut all);
            round += 1;
        }
        all
    }

    #[test]
    fn a_load_that_comes_and_goes_does_not_change_the_answer() {
        let trials = 100;
        for lasts in [1.0, 4.0, 20.0] {
            let changed = |seed| best(&trial(&mut Noise(seed), &[1.0; 6], lasts, 40)) != 0;
            let wrong = (0..trials).filter(|&seed| changed(seed)).count();
            let walls = [2.0, 2.0, 1.0, 2.0];
            let found = |seed| best(&trial(&mut Noise(seed), &walls, lasts, 40)) == 2;
            let right = (0..trials).filter(|&seed| found(seed)).count();
            println!("load of {lasts} runs: {wrong} wrong and {right} right of {trials}");
            assert!(wrong <= 4, "{wrong} of {trials} with {lasts}");
            assert!(right >= 90, "{right} of {trials} with {lasts}");
        }
    }

    #[test]
    fn settings_are_compared_by_the_rounds_that_both_have_run() {
        // A neighbour has ended after four rounds, and a setting that was added then looks faster.
        let slow = [3.0, 3.1, 2.9, 3.0, 1.0, 1.1, 1.0, 1.05, 1.0, 1.1];
        let own = measured(slow.map(|wall_s| (wall_s, 1.0)));
        let mut other = measured([1.1, 1.0, 1.05, 1.0, 1.0, 1.1].map(|wall_s| (wall_s, 1.0)));
        other.costs.iter_mut().for_each(|(round, _)| *round += 4);
        let ratio = other.ratio(&own).unwrap().factor();
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
        assert_eq!(best(&[own, other]), 0);
    }

    #[test]
    fn one_run_of_each_setting_does_not_decide() {
        assert_eq!(best(&[measured([(1.0, 1.0)]), measured([(0.2, 0.2)])]), 0);
        // Two runs are enough if the difference is large.
        let long = measured([(2.7, 2.7), (1.1, 1.1)]);
        let short = measured([(0.11, 0.1), (0.12, 0.1)]);
        assert_eq!(best(&[long, short]), 1);
    }

    #[test]
    fn a_setting_that_failed_is_not_recommended() {
        let failed = Runs {
            dropped: Some(Dropped::Failed(1)),
            ..exact(0.1, 0.1)
        };
        assert_eq!(best(&[exact(1.0, 1.0), failed.clone()]), 0);
        // The program as it is fails, and with one of the others it does not.
        let all = [failed, exact(1.0, 1.0), exact(0.5, 0.5)];
        assert_eq!(best(&all), 2);
        assert!(!is_decided(&[Runs::default()]), "it has not run");
    }

    #[test]
    fn the_default_is_kept_if_others_are_better_only_within_noise() {
        let pairs = |walls: [f64; 5], cpus: [f64; 5]| measured(std::iter::zip(walls, cpus));
        let own = pairs([1.0, 1.0, 1.5, 1.0, 1.5], [1.0; 5]);
        let other = pairs([1.4, 0.8, 0.9, 0.9, 1.5], [0.8, 1.3, 0.7, 0.9, 0.6]);
        assert_eq!(best(&[own.clone(), other]), 0);
        let faster = pairs([0.5, 0.5, 0.7, 0.5, 0.7], [1.0; 5]);
        assert_eq!(best(&[own, faster]), 1);
    }

    #[test]
    fn probabilities_match_the_tables_of_wilcoxon() {
        let pairs =
            |logs: &[f64]| -> Vec<(f64, f64)> { logs.iter().map(|l| (l.exp(), 1.0)).collect() };
        assert_eq!(chance(&pairs(&[0.1, 0.2, 0.3, 0.4, 0.5])), 1.0 / 32.0);
        // The smallest difference has the other sign: two of 32 outcomes are as large.
        assert_eq!(chance(&pairs(&[-0.1, 0.2, 0.3, 0.4, 0.5])), 2.0 / 32.0);
        // The table has a sum of 52 for 20 differences and 2.5 % (one-sided).
        let mut many: Vec<f64> = (1..=20).map(f64::from).collect();
        for i in [20, 19, 13] {
            many[i - 1] *= -1.0;
        }
        let p = chance(&pairs(&many.iter().map(|l| l / 100.0).collect::<Vec<_>>()));
        assert!((0.015..0.035).contains(&p), "{p}");
    }

    #[test]
    fn a_program_that_sleeps_is_not_changed_to_save_a_little() {
        // A tenth of the CPU time is saved, without noise, and it is 0.1 % of a CPU.
        let all = [exact(0.1, 0.0014), exact(0.1, 0.0012)];
        assert_eq!(best(&all), 0);
        let all = [exact(0.1, 0.014), exact(0.1, 0.0012)];
        assert_eq!(best(&all), 1, "12 % of a CPU is worth it");
    }

    #[test]
    fn the_cheaper_of_equally_fast_settings_is_chosen() {
        let all = [exact(1.0, 4.0), exact(1.01, 1.0), exact(1.2, 0.5)];
        assert_eq!(best(&all), 1);
        let mut few = vec![exact(1.0, 4.0)];
        few[0].costs.truncate(1);
        prune(&mut few);
        assert!(is_decided(&few) && best(&few) == 0);
    }
}
