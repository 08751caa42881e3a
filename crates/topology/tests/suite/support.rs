//! Builds the trees that the tests read.

use std::fs;
use std::path::Path;

use creel_topology::{Budget, CpuSet, Error, Machine};

pub const CPU: &str = "sys/devices/system/cpu";
pub const NODE: &str = "sys/devices/system/node";

/// A temporary root folder that is deleted on drop.
pub struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Fixture {
        Fixture {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a tree that contains only the list of online PUs.
    pub fn online(pus: &str) -> Fixture {
        let fixture = Fixture::new().file(&format!("{CPU}/online"), &format!("{pus}\n"));
        for pu in set(pus).iter() {
            fs::create_dir_all(fixture.root().join(CPU).join(format!("cpu{pu}"))).unwrap();
        }
        fixture
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(self, path: &str, text: &str) -> Fixture {
        let file = self.root().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        self
    }

    /// Adds a file to the topology folder of each PU of each set. It contains the set as a CPU
    /// list.
    pub fn topology(mut self, name: &str, sets: &[&str]) -> Fixture {
        for text in sets {
            for pu in set(text).iter() {
                self = self.file(
                    &format!("{CPU}/cpu{pu}/topology/{name}"),
                    &format!("{text}\n"),
                );
            }
        }
        self
    }

    /// Adds a file next to the topology folder of each PU of the set.
    pub fn each(mut self, pus: &str, name: &str, text: &str) -> Fixture {
        for pu in set(pus).iter() {
            self = self.file(&format!("{CPU}/cpu{pu}/{name}"), text);
        }
        self
    }

    pub fn read(&self) -> Result<Machine, Error> {
        Machine::read_from(self.root())
    }

    pub fn machine(&self) -> Machine {
        self.read().unwrap()
    }

    pub fn budget(&self) -> Budget {
        Budget::of(&self.machine())
    }
}

pub fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

pub fn texts<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> Vec<String> {
    sets.map(CpuSet::to_string).collect()
}

/// Returns the siblings of each core.
pub fn cores(machine: &Machine) -> Vec<String> {
    texts(machine.cores().iter().map(|core| &core.pus))
}

/// A random number generator. It prints its seed, and you can set the seed in `CREEL_TEST_SEED` to
/// repeat a test.
pub struct Dice {
    state: u64,
}

impl Dice {
    pub fn new(test: &str) -> Dice {
        let given = std::env::var("CREEL_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or(20_261_121);
        eprintln!("{test}: CREEL_TEST_SEED={seed}");
        Dice { state: seed }
    }

    /// Returns another generator, whose numbers are independent of the further numbers of this one.
    #[cfg(unix)]
    pub fn split(&mut self) -> Dice {
        let state = [(); 2].map(|()| self.below(1 << 31) as u64);
        Dice {
            state: state[0] << 31 | state[1],
        }
    }

    /// Returns a number from 0 to `bound` - 1 (SplitMix64).
    pub fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}
