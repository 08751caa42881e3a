//! Tests of behaviour that concerns the whole process, such as the environment variable
//! `RAYON_NUM_THREADS`. Each test therefore runs itself again in a process of its own.

use std::{env, process::Command};

#[test]
fn rayon_num_threads_sets_the_number_of_threads() {
    if env::var("RAYON_NUM_THREADS").is_ok() {
        assert_eq!(rayon_core::current_num_threads(), 5);
        assert_eq!(rayon_core::pool().workers(), 5);
        return;
    }
    let mut again = Command::new(env::current_exe().unwrap());
    let again = again.args(["the_variable_sets", "--nocapture"]);
    assert!(
        again
            .env("RAYON_NUM_THREADS", "5")
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_panic_without_a_handler_aborts() {
    if env::var("CREEL_TEST_ABORT").is_ok() {
        rayon_core::spawn(|| panic!("expected"));
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    let mut again = Command::new(env::current_exe().unwrap());
    let again = again.args(["a_panic_without_a_handler", "--nocapture"]);
    let output = again.env("CREEL_TEST_ABORT", "1").output().unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("no panic handler"), "{message}");
}
