//! Chooses the best of several settings from interleaved runs.
//!
//! The settings take turns, so that a drift in the speed of the machine affects them equally. We
//! drop a setting as soon as it is slower than the fastest beyond noise, so that the time goes to
//! those that are still in doubt.

use creel_stats::{Ratio, Summary};

/// The number of rounds after which we drop settings. With fewer runs, the interval of a ratio is
/// too wide.
const ROUNDS_LEAST: usize = 4;
/// The largest number of rounds. More do not pay.
const ROUNDS_MOST: usize = 40;
/// Settings whose times differ by less than this factor count as equally fast.
const EQUAL: f64 = 1.03;
/// A setting is slower beyond doubt if its fastest run takes this factor longer than the slowest
/// run of another. With two or three runs, the interval of a ratio is too wide to show even that.
const CLEAR: f64 = 2.0;
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
    pub peak_bytes: f64,
}

/// The runs of one setting.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    pub costs: Vec<Cost>,
    /// Whether it was slower than the fastest beyond noise, or has failed.
    pub is_dropped: bool,
}

impl Runs {
    fn walls(&self) -> Vec<f64> {
        self.costs.iter().map(|cost| cost.wall_s).collect()
    }

    /// Returns the median of a figure, or infinity without a run.
    pub fn median(&self, figure: fn(&Cost) -> f64) -> f64 {
        let values: Vec<f64> = self.costs.iter().map(figure).collect();
        Summary::of(&values).map_or(f64::INFINITY, |summary| summary.median)
    }

    /// Returns the ratio of the wall times to those of `base`, round by round.
    pub fn ratio(&self, base: &Runs) -> Option<Ratio> {
        Ratio::of(&base.walls(), &self.walls())
    }

    /// Returns whether every run is much slower than every run of `other`.
    fn is_clearly_slower(&self, other: &Runs) -> bool {
        let fastest = self.walls().into_iter().fold(f64::INFINITY, f64::min);
        let slowest = other.walls().into_iter().fold(0.0, f64::max);
        self.costs.len() > 1 && other.costs.len() > 1 && fastest > CLEAR * slowest
    }

    /// Returns whether it costs less CPU time than `other`, by enough to matter and beyond noise.
    fn is_cheaper(&self, other: &Runs) -> bool {
        let cpus = |runs: &Runs| runs.costs.iter().map(|cost| cost.cpu_s).collect::<Vec<_>>();
        let saved_s = other.median(|cost| cost.cpu_s) - self.median(|cost| cost.cpu_s);
        let is_worth_it = saved_s > SAVES_OF_A_CPU * other.median(|cost| cost.wall_s);
        let ratio = Ratio::of(&cpus(other), &cpus(self));
        is_worth_it
            && ratio.is_some_and(|ratio| {
                ratio.geometric_mean <= 1.0 - SAVES && ratio.high.is_some_and(|high| high < 1.0)
            })
    }
}

/// Returns the fastest setting by the median of its wall times.
fn fastest(all: &[Runs]) -> usize {
    let wall = |i: &usize| all[*i].median(|cost| cost.wall_s);
    let open = (0..all.len()).filter(|&i| !all[i].is_dropped);
    open.min_by(|a, b| wall(a).total_cmp(&wall(b))).unwrap_or(0)
}

/// Drops the settings that are slower than the fastest beyond noise. `keep` is never dropped,
/// because the report compares with it.
pub fn prune(all: &mut [Runs], keep: usize) {
    let best = fastest(all);
    if all[best].costs.len() < ROUNDS_LEAST {
        return;
    }
    let base = all[best].clone();
    for (i, runs) in all.iter_mut().enumerate().filter(|(i, _)| *i != keep) {
        let slower = runs.ratio(&base).and_then(|ratio| ratio.low);
        runs.is_dropped |= i != best && slower.is_some_and(|low| low > 1.0);
    }
}

/// Returns whether more rounds would not change the answer.
pub fn is_decided(all: &[Runs]) -> bool {
    let open = || all.iter().filter(|runs| !runs.is_dropped);
    let rounds = open().map(|runs| runs.costs.len()).min().unwrap_or(0);
    if rounds == 0 {
        // Even a single setting runs once, because the report has its cost.
        return open().next().is_none();
    }
    if open().count() <= 1 || rounds >= ROUNDS_MOST {
        return true;
    }
    let base = &all[fastest(all)];
    // A setting is clear if the interval of its ratio does not contain the limit `EQUAL`.
    let is_clear = |runs: &Runs| {
        let ratio = runs.ratio(base).and_then(|r| Some((r.low?, r.high?)));
        ratio.is_some_and(|(low, high)| high <= EQUAL || low > EQUAL)
    };
    rounds > ROUNDS_LEAST && open().all(is_clear)
}

/// Returns the setting to recommend. It is one of the settings that are as fast as the fastest. We
/// leave out those that cost more CPU time than another of them, and take the first of the rest,
/// because simple settings come first. The very first one is the program without creel. It counts
/// as equally fast unless it is slower beyond noise.
pub fn best(all: &[Runs]) -> usize {
    let first = fastest(all);
    let is_equal = |i: &usize| {
        let is_equal = |ratio: Ratio| {
            let is_in_doubt = *i == 0
                && ratio.low.is_some_and(|low| low <= 1.0)
                && !all[0].is_clearly_slower(&all[first]);
            ratio.geometric_mean <= EQUAL || is_in_doubt
        };
        all[*i].ratio(&all[first]).is_some_and(is_equal)
    };
    let equal: Vec<usize> = (0..all.len()).filter(is_equal).collect();
    let is_cheap = |i: &&usize| !equal.iter().any(|&other| all[other].is_cheaper(&all[**i]));
    equal.iter().find(is_cheap).copied().unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_stats::noise::Noise;

    /// Returns runs with this mean time and CPU time, and the noise of a shared machine.
    fn runs(noise: &mut Noise, wall_s: f64, cpu_s: f64, rounds: usize) -> Runs {
        let costs = (0..rounds).map(|_| Cost {
            wall_s: wall_s * noise.factor(),
            cpu_s,
            peak_bytes: 1e6,
        });
        Runs {
            costs: costs.collect(),
            is_dropped: false,
        }
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
        prune(&mut pruned, 0);
        let dropped: Vec<bool> = pruned.iter().map(|runs| runs.is_dropped).collect();
        assert_eq!(dropped, [false, false, true], "the default is kept");
    }

    #[test]
    fn the_default_is_kept_if_nothing_is_better() {
        for seed in 0..50 {
            let noise = &mut Noise(seed);
            let all = [runs(noise, 1.0, 2.0, 40), runs(noise, 1.0, 2.0, 40)];
            let ratio = all[1].ratio(&all[0]).unwrap();
            if (0.97..1.03).contains(&ratio.geometric_mean) {
                assert_eq!(best(&all), 0, "seed {seed}");
            }
        }
    }

    #[test]
    fn the_default_is_kept_if_others_are_better_only_within_noise() {
        let measured = |walls: [f64; 5], cpus: [f64; 5]| Runs {
            costs: std::iter::zip(walls, cpus)
                .map(|(wall_s, cpu_s)| Cost {
                    wall_s,
                    cpu_s,
                    peak_bytes: 1e6,
                })
                .collect(),
            is_dropped: false,
        };
        let own = measured([1.0, 1.0, 1.5, 1.0, 1.5], [1.0; 5]);
        let other = measured([1.4, 0.8, 0.9, 0.9, 1.5], [0.8, 1.3, 0.7, 0.9, 0.6]);
        let ratio = other.ratio(&own).unwrap();
        assert!(ratio.geometric_mean < 0.91 && ratio.high.unwrap() > 1.0);
        assert_eq!(best(&[own.clone(), other]), 0);
        // Two long runs with a wide interval are enough if the difference is large.
        let mut long = measured([2.7, 1.1, 0.0, 0.0, 0.0], [1.0; 5]);
        let mut short = measured([0.11, 0.12, 0.0, 0.0, 0.0], [1.0; 5]);
        long.costs.truncate(2);
        short.costs.truncate(2);
        assert!(long.ratio(&short).unwrap().low.unwrap() < 1.0);
        assert_eq!(best(&[long, short]), 1);
        let faster = measured([0.5, 0.5, 0.7, 0.5, 0.7], [1.0; 5]);
        assert_eq!(best(&[own, faster]), 1);
    }

    fn exact(wall_s: f64, cpu_s: f64) -> Runs {
        let cost = Cost {
            wall_s,
            cpu_s,
            peak_bytes: 1e6,
        };
        Runs {
            costs: vec![cost; 5],
            is_dropped: false,
        }
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
        prune(&mut few, 0);
        assert!(is_decided(&few) && best(&few) == 0);
        assert!(!is_decided(&[Runs::default()]), "it has not run");
    }
}
