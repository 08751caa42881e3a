//! Tests with random writes and memories. No chip panics or exceeds 16 bits, and no result depends
//! on the sizes of the blocks.

use creel_vgm::chips::{factory, pcm::PcmChip};
use creel_vgm::format::{ChipId, Header};

use crate::random::Random;

/// The ranges of the random writes to a chip.
struct Kind {
    chip: ChipId,
    clock_hz: u32,
    /// The bytes of the header.
    header: &'static [(usize, u8)],
    ports: &'static [u8],
    regs: u16,
    values: u16,
    block: u8,
    /// The writes without which the chip would be silent.
    first: &'static [(u8, u16, u16)],
}

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    Kind { chip: ChipId::Okim6295, clock_hz: 1_056_000, header: &[], ports: &[0], regs: 1, values: 256, block: 0x8B, first: &[] },
    Kind { chip: ChipId::SegaPcm, clock_hz: 4_000_000, header: &[(0x3C, 12)], ports: &[0], regs: 256, values: 256, block: 0x80, first: &[] },
    Kind { chip: ChipId::Rf5c68, clock_hz: 12_500_000, header: &[], ports: &[0, 0, 0, 1], regs: 9, values: 256, block: 0, first: &[(0, 7, 0xC0), (0, 8, 0)] },
    Kind { chip: ChipId::Rf5c164, clock_hz: 12_500_000, header: &[], ports: &[0], regs: 9, values: 256, block: 0, first: &[(0, 7, 0xC0), (0, 8, 0)] },
    Kind { chip: ChipId::K053260, clock_hz: 3_579_545, header: &[], ports: &[0], regs: 0x30, values: 256, block: 0x8E, first: &[(0, 0x2F, 2)] },
    Kind { chip: ChipId::K054539, clock_hz: 18_432_000, header: &[], ports: &[0, 2], regs: 256, values: 256, block: 0x8C, first: &[(2, 0x2F, 1), (2, 0x14, 0xFF)] },
    Kind { chip: ChipId::K054539, clock_hz: 18_432_000, header: &[(0x95, 6)], ports: &[0, 2], regs: 256, values: 256, block: 0x8C, first: &[(2, 0x2F, 1), (2, 0x14, 0xFF)] },
    Kind { chip: ChipId::Qsound, clock_hz: 60_000_000, header: &[], ports: &[0], regs: 256, values: 65_535, block: 0x8F, first: &[] },
    Kind { chip: ChipId::C352, clock_hz: 24_192_000, header: &[], ports: &[0], regs: 0x203, values: 65_535, block: 0x92, first: &[(0, 3, 0x4012), (0, 2, 0x8000), (0, 0x202, 0)] },
    Kind { chip: ChipId::C140, clock_hz: 21_390, header: &[(0x96, 0)], ports: &[0, 1], regs: 256, values: 256, block: 0x8D, first: &[] },
    Kind { chip: ChipId::C140, clock_hz: 12_288_000, header: &[(0x96, 1)], ports: &[0, 1], regs: 256, values: 256, block: 0x8D, first: &[] },
    Kind { chip: ChipId::C140, clock_hz: 21_390, header: &[(0x96, 2)], ports: &[0, 1], regs: 256, values: 256, block: 0x8D, first: &[] },
    Kind { chip: ChipId::Upd7759, clock_hz: 640_000, header: &[], ports: &[0], regs: 4, values: 4, block: 0x8A, first: &[] },
    Kind { chip: ChipId::Upd7759, clock_hz: 640_000, header: &[(0x8F, 0x80)], ports: &[0], regs: 4, values: 256, block: 0x8A, first: &[] },
    Kind { chip: ChipId::Ga20, clock_hz: 3_579_545, header: &[], ports: &[0], regs: 32, values: 256, block: 0x93, first: &[] },
    Kind { chip: ChipId::Pwm, clock_hz: 23_011_361, header: &[], ports: &[0], regs: 5, values: 4096, block: 0, first: &[] },
    Kind { chip: ChipId::X1010, clock_hz: 16_000_000, header: &[], ports: &[0], regs: 0x2000, values: 256, block: 0x91, first: &[] },
    Kind { chip: ChipId::X1010, clock_hz: 16_000_000, header: &[], ports: &[0], regs: 0x80, values: 256, block: 0x91, first: &[] },
    Kind { chip: ChipId::MultiPcm, clock_hz: 8_053_975, header: &[], ports: &[0, 0, 0, 0, 1], regs: 3, values: 256, block: 0x89, first: &[] },
    Kind { chip: ChipId::Ymf278b, clock_hz: 33_868_800, header: &[], ports: &[2], regs: 256, values: 256, block: 0x84, first: &[] },
    Kind { chip: ChipId::Ymf271, clock_hz: 16_934_400, header: &[], ports: &[0, 1, 2, 3, 4, 6], regs: 256, values: 256, block: 0x85, first: &[] },
    Kind { chip: ChipId::Ics2115, clock_hz: 33_868_800, header: &[], ports: &[0], regs: 4, values: 256, block: 0x96, first: &[(0, 1, 0x4F), (0, 2, 0), (0, 1, 1), (0, 3, 4), (0, 1, 4), (0, 3, 0x10), (0, 1, 9), (0, 3, 0xF0), (0, 1, 0), (0, 3, 12), (0, 1, 0x10), (0, 3, 0)] },
    Kind { chip: ChipId::Es5506, clock_hz: 16_000_000, header: &[(0xD3, 0x80)], ports: &[0], regs: 64, values: 256, block: 0x90, first: &[] },
    Kind { chip: ChipId::Es5506, clock_hz: 16_000_000, header: &[], ports: &[1], regs: 16, values: 65_535, block: 0x90, first: &[] },
    Kind { chip: ChipId::Scsp, clock_hz: 22_579_200, header: &[], ports: &[0], regs: 0x402, values: 256, block: 0, first: &[] },
];

impl Random {
    fn index(&mut self, bound: u16) -> u16 {
        (self.next() % u64::from(bound)) as u16
    }
}

impl Kind {
    fn chip(&self, random: &mut Random) -> Box<dyn PcmChip> {
        let mut song = vec![0; 0x101];
        song[..4].copy_from_slice(b"Vgm ");
        song[8..10].copy_from_slice(&[0x72, 0x01]);
        song[0x34] = 0xCC;
        for (offset, byte) in self.header {
            song[*offset] = *byte;
        }
        let header = Header::parse(&song).unwrap();
        let mut chip = factory::pcm_chip(&header, self.chip, self.clock_hz).unwrap();
        let memory: Vec<u8> = (0..0x2_0000).map(|_| random.next() as u8).collect();
        if let Some(rom) = chip.rom(self.block) {
            *rom = creel_vgm::chips::rom::Rom::of(memory.clone());
        }
        chip.store(0, &memory[..0x1_0000]);
        chip
    }
}

/// Returns the frames for each seed, with blocks of `cut` frames.
fn frames(kind: &Kind, seed: u64, cut: usize) -> Vec<[i32; 2]> {
    let mut random = Random(seed);
    let mut chip = kind.chip(&mut random);
    for (port, reg, value) in kind.first {
        chip.write(*port, *reg, *value);
    }
    let mut all = Vec::new();
    for _ in 0..300 {
        for _ in 0..random.index(40) {
            let port = kind.ports[usize::from(random.index(kind.ports.len() as u16))];
            chip.write(port, random.index(kind.regs), random.index(kind.values));
        }
        let mut block = vec![[0; 2]; usize::from(random.index(300))];
        block.chunks_mut(cut).for_each(|part| chip.render(part));
        all.append(&mut block);
    }
    all
}

#[test]
fn output_of_random_writes_is_independent_of_block_size() {
    for (number, kind) in KINDS.iter().enumerate() {
        let mut heard = 0;
        for seed in 0..6 {
            let whole = frames(kind, seed, usize::MAX);
            let what = format!("{:?}, kind {number}, seed {seed}", kind.chip);
            heard += whole.iter().filter(|frame| **frame != [0; 2]).count();
            let limits = -0x8000..=0x7FFF;
            assert!(
                whole
                    .as_flattened()
                    .iter()
                    .all(|side| limits.contains(side)),
                "{what}"
            );
            for cut in [1, 7, 64] {
                let parts = frames(kind, seed, cut);
                let at = whole
                    .iter()
                    .zip(&parts)
                    .position(|(one, other)| one != other);
                assert_eq!(at, None, "{what}: cut at every {cut}");
            }
        }
        assert!(heard > 1000, "{:?}, kind {number} is silent", kind.chip);
    }
}
