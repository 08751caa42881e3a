//! Checks that the helper thread sleeps while no event happens. This test has a process of its own,
//! because other tests use the helper.
#![cfg(target_os = "linux")]

use std::fs;
use std::thread;
use std::time::Duration;

use creel::Pool;
use creel_tokio::with_tokio;
use tokio::net::TcpListener;

/// The name of the helper thread.
const HELPER: &str = "creel-tokio";
/// The time for which we watch the idle helper.
const WATCHED: Duration = Duration::from_millis(200);
/// The most CPU time that the helper may use while we watch it.
const CPU_TIME_MAX: Duration = Duration::from_millis(1);

/// Returns the number of threads with this name, and the sum of their CPU times in nanoseconds.
fn cpu_time(name: &str) -> (usize, u64) {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let of_name = tasks.filter_map(|task| {
        let task = task.ok()?.path();
        let its_name = fs::read_to_string(task.join("comm")).ok()?;
        let times = fs::read_to_string(task.join("schedstat")).ok()?;
        let time = times.split(' ').next()?.parse::<u64>().ok()?;
        (its_name.trim_end() == name).then_some(time)
    });
    of_name.fold((0, 0), |(count, sum), time| (count + 1, sum + time))
}

#[test]
fn an_unused_helper_does_not_run() {
    assert_eq!(cpu_time(HELPER).0, 0, "it starts with the first use");
    let pool = Pool::builder().workers(1).build().unwrap();
    // The outer task returns the handle of the inner one, which we await below.
    #[expect(clippy::async_yields_async)]
    let waits = pool.spawn(with_tokio(async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        creel::task::spawn(with_tokio(async move { listener.accept().await.map(drop) }))
    }));
    let waits = pool.block_on(waits).unwrap();
    // We wait before we measure, because the helper may not be asleep yet.
    thread::sleep(Duration::from_millis(20));
    let (helpers, before) = cpu_time(HELPER);
    thread::sleep(WATCHED);
    let (_, after) = cpu_time(HELPER);
    assert_eq!(helpers, 1);
    let used = Duration::from_nanos(after - before);
    assert!(used <= CPU_TIME_MAX, "the idle helper used {used:?}");
    waits.abort();
}
