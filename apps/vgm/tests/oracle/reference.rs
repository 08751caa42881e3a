//! Runs a register stream on ymfm.

use std::cell::RefCell;
use std::rc::Rc;

use ymfm_sys::ffi::{AccessClass, ChipType, Fidelity, create_chip_with_callbacks};
use ymfm_sys::{ChipPtr, InterfaceCallbacks, InterfaceHandler};

/// A chip of ymfm with its timers and memories.
pub struct Reference {
    chip: ChipPtr,
    buffer: Vec<i32>,
    /// The number of output frames per native frame.
    repeats: usize,
    /// The prescaler of the YM2203 and YM2608, if we follow it.
    prescaler: Option<usize>,
    mono: bool,
}

#[derive(Default)]
struct Host {
    now: i64,
    deadlines: [Option<i64>; 2],
    memories: [Vec<u8>; 2],
}

impl Host {
    fn advance(&mut self, clocks: i64) -> u8 {
        self.now += clocks;
        let mut expired = 0;
        for (i, deadline) in self.deadlines.iter_mut().enumerate() {
            if deadline.is_some_and(|at| at <= self.now) {
                *deadline = None;
                expired |= 1 << i;
            }
        }
        expired
    }

    fn byte(&mut self, class: AccessClass, address: u32) -> Option<&mut u8> {
        let memory = match class {
            AccessClass::AdpcmA => &mut self.memories[0],
            AccessClass::AdpcmB => &mut self.memories[1],
            _ => return None,
        };
        memory.get_mut(address as usize)
    }
}

impl Reference {
    /// Creates a chip after reset, with the memories of ADPCM-A and ADPCM-B.
    pub fn new(kind: ChipType, clock_hz: u32, memories: [Vec<u8>; 2]) -> Self {
        let mut chip = create_chip_with_callbacks(kind, clock_hz, callbacks(memories));
        chip.pin_mut().set_fidelity(Fidelity::Min);
        let buffer = vec![0; chip.channels() as usize];
        let mono = kind == ChipType::Ym2203 || chip.channels() == 1;
        // Even at the lowest fidelity, the YM2203 and YM2608 output each frame three times.
        let repeats = if matches!(kind, ChipType::Ym2203 | ChipType::Ym2608) {
            3
        } else {
            1
        };
        Self {
            chip,
            buffer,
            repeats,
            prescaler: None,
            mono,
        }
    }

    /// Creates a YM2203 or YM2608 at the highest fidelity. A frame then has a whole number of
    /// outputs for each prescaler.
    ///
    /// The prescaler must be written only after multiples of six frames.
    pub fn prescaled(kind: ChipType, clock_hz: u32, memories: [Vec<u8>; 2]) -> Self {
        let mut this = Self::new(kind, clock_hz, memories);
        this.chip.pin_mut().set_fidelity(Fidelity::Max);
        Self {
            prescaler: Some(6),
            repeats: 18,
            ..this
        }
    }

    /// Writes a register through the address port and the data port.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        if let (Some(prescaler), 0) = (&mut self.prescaler, port) {
            match reg {
                0x2d => *prescaler = 6,
                0x2e if *prescaler == 6 => *prescaler = 3,
                0x2f => *prescaler = 2,
                _ => {}
            }
            self.repeats = *prescaler * 3;
        }
        let port = u32::from(port) * 2;
        self.chip.pin_mut().write(port, reg);
        self.chip.pin_mut().write(port + 1, value);
    }

    /// Returns the next native frame without the SSG.
    pub fn frame(&mut self) -> [i32; 2] {
        for _ in 0..self.repeats {
            self.chip.pin_mut().generate(&mut self.buffer);
        }
        if self.mono {
            [self.buffer[0]; 2]
        } else {
            [self.buffer[0], self.buffer[1]]
        }
    }
}

/// Returns the callbacks of ymfm. They provide the timers, which expire between frames, and the
/// memories.
fn callbacks(memories: [Vec<u8>; 2]) -> Box<InterfaceCallbacks> {
    let host = Rc::new(RefCell::new(Host {
        memories,
        ..Host::default()
    }));
    let [timers, clock, reads, writes] = std::array::from_fn(|_| Rc::clone(&host));
    Box::new(InterfaceCallbacks::new(InterfaceHandler {
        advance_clock: Some(Box::new(move |clocks| clock.borrow_mut().advance(clocks))),
        ymfm_set_timer: Some(Box::new(move |timer, duration| {
            let mut host = timers.borrow_mut();
            let deadline = host.now + i64::from(duration);
            host.deadlines[timer as usize] = (duration >= 0).then_some(deadline);
        })),
        ymfm_external_read: Some(Box::new(move |class, address| {
            reads
                .borrow_mut()
                .byte(class, address)
                .map_or(0, |byte| *byte)
        })),
        ymfm_external_write: Some(Box::new(move |class, address, value| {
            if let Some(byte) = writes.borrow_mut().byte(class, address) {
                *byte = value;
            }
        })),
        ..InterfaceHandler::default()
    }))
}
