//! Runs rooms while a test talks to them.

use creel_cast::rooms::{self, LegReport, Plan};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the rooms of `plan` while `talk` runs, and returns their reports. The rooms end even if
/// `talk` panics.
pub fn run_rooms_while(plan: &Plan, talk: impl FnOnce()) -> Vec<LegReport> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            rooms::run(plan, &|| over.load(Ordering::Relaxed))
                .unwrap()
                .1
        });
        let talked = catch_unwind(AssertUnwindSafe(talk));
        over.store(true, Ordering::Relaxed);
        let reports = running.join().unwrap();
        talked.unwrap();
        reports
    })
}
