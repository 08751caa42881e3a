//! Tests that a signal sets the flag of every clone and does not end the process.

use creel_console::{Exit, Interrupt, exit_of};

#[test]
fn the_first_interrupt_sets_the_flag_only() {
    let interrupt = Interrupt::install().unwrap();
    let clone = interrupt.clone();
    assert!(!clone.requested());
    signal_hook::low_level::raise(signal_hook::consts::SIGINT).unwrap();
    assert!(clone.requested());
    assert_eq!(
        exit_of(&interrupt.check().unwrap_err().into()),
        Exit::Interrupted
    );
}
