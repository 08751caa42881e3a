//! ymfm behind the interface of a register stream.

use std::cell::RefCell;
use std::rc::Rc;

use ymfm_sys::ffi::{AccessClass, ChipType, Fidelity, create_chip_with_callbacks};
use ymfm_sys::{ChipPtr, InterfaceCallbacks, InterfaceHandler};

/// A ymfm chip with its timers and memories.
pub struct Reference {
    chip: ChipPtr,
    buffer: Vec<i32>,
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
    /// A chip after reset, with the memories of ADPCM-A and ADPCM-B.
    pub fn new(kind: ChipType, clock_hz: u32, fidelity: Fidelity, memories: [Vec<u8>; 2]) -> Self {
        let host = Rc::new(RefCell::new(Host {
            memories,
            ..Host::default()
        }));
        let [timers, clock, reads, writes] = std::array::from_fn(|_| Rc::clone(&host));
        let handler = InterfaceHandler {
            advance_clock: Some(Box::new(move |clocks| clock.borrow_mut().advance(clocks))),
            ymfm_set_timer: Some(Box::new(move |timer, duration| {
                let mut host = timers.borrow_mut();
                let now = host.now;
                host.deadlines[timer as usize] =
                    (duration >= 0).then_some(now + i64::from(duration));
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
        };
        let callbacks = Box::new(InterfaceCallbacks::new(handler));
        let mut chip = create_chip_with_callbacks(kind, clock_hz, callbacks);
        chip.pin_mut().set_fidelity(fidelity);
        let buffer = vec![0; chip.channels() as usize];
        Self { chip, buffer }
    }

    /// Writes a register through address and data port.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        let port = u32::from(port) * 2;
        self.chip.pin_mut().write(port, reg);
        self.chip.pin_mut().write(port + 1, value);
    }

    /// One output frame: all of ymfm's outputs.
    pub fn frame(&mut self) -> &[i32] {
        self.chip.pin_mut().generate(&mut self.buffer);
        &self.buffer
    }
}
