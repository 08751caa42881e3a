//! Writes to chips that a CPU feeds sample by sample.
//!
//! There are thousands of such writes per second. If each of them split the chip's block, passing
//! it to the chip would cost more than executing it. Therefore we pass the writes together with the
//! block, and the chip splits the block itself.

/// A write and its position in a block.
#[derive(Debug, Clone, Copy)]
pub struct StreamedWrite {
    /// The frame of the block before which the write takes effect. It is not lower than that of the
    /// write before.
    pub frame: u32,
    /// The register that is written.
    pub reg: u16,
    /// The value that is written.
    pub value: u16,
}

/// Overwrites `out` with the next frames of a chip, and executes the writes between them.
#[inline]
pub fn render_streamed<C: ?Sized>(
    chip: &mut C,
    writes: &[StreamedWrite],
    out: &mut [[i32; 2]],
    (write, render): (impl Fn(&mut C, u16, u16), impl Fn(&mut C, &mut [[i32; 2]])),
) {
    let mut at = 0;
    for streamed in writes {
        let frame = streamed.frame as usize;
        if frame > at {
            render(chip, &mut out[at..frame]);
            at = frame;
        }
        write(chip, streamed.reg, streamed.value);
    }
    render(chip, &mut out[at..]);
}
