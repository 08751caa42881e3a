//! Tests of child processes: their pipes, how they end, and how they are killed and dropped.
#![cfg(unix)]

use creel::process::{Child, Command};
use creel::time::timeout;
use creel::{Pool, task};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The timeout of all waits. Only a hang takes this long.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// A child that prints a line and then waits for a signal.
fn endless() -> Command {
    let mut command = shell("echo started; exec sleep 600");
    command.stdout(Stdio::piped());
    command
}

async fn started(child: &Child) {
    let mut bytes = [0; 16];
    let read = child.stdout.as_ref().unwrap().read(&mut bytes).await;
    assert_eq!(&bytes[..read.unwrap()], b"started\n");
}

/// Returns whether a process exists. A zombie counts as well.
fn exists(id: u32) -> bool {
    let mut kill = std::process::Command::new("kill");
    let kill = kill.args(["-0", &id.to_string()]).stderr(Stdio::null());
    kill.status().unwrap().success()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < HANG_TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn children_report_how_they_ended() {
    let pool = pool(2);
    pool.block_on(async {
        assert!(Command::new("true").status().await.unwrap().success());
        let status = shell("sleep 0.01; exit 7").status().await.unwrap();
        assert_eq!(status.code(), Some(7));
        let status = shell("kill -TERM $$").status().await.unwrap();
        assert_eq!(status.signal(), Some(15));
        let mut child = shell("exit 3").spawn().unwrap();
        let id = child.id().unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(3));
        assert!(!exists(id));
        // A second wait returns the same status.
        assert_eq!(child.wait().await.unwrap().code(), Some(3));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(3));
        assert_eq!(child.id(), None);
        let error = child.start_kill().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_missing_program_is_an_error() {
    let spawned = pool(1).block_on(async { Command::new("/no/such/program").spawn() });
    assert_eq!(spawned.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn more_output_than_fits_into_the_pipes_arrives() {
    let pool = pool(1);
    let script = "head -c 1000000 /dev/zero; head -c 300000 /dev/zero >&2; exit 4";
    let output = pool.block_on(shell(script).output()).unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(output.stdout, vec![0; 1_000_000]);
    assert_eq!(output.stderr, vec![0; 300_000]);
}

#[test]
fn more_input_than_fits_into_the_pipe_is_written_while_output_is_read() {
    let pool = pool(2);
    pool.block_on(async {
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = cat.stdin.take().unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let expected = sent.clone();
        let writes = task::spawn(async move { stdin.write_all(&sent).await });
        let output = cat.wait_with_output().await.unwrap();
        writes.await.unwrap().unwrap();
        assert!(output.stdout == expected);
    });
}

#[test]
fn a_child_that_reads_nothing_breaks_the_pipe() {
    let pool = pool(1);
    let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    pool.block_on(async {
        child.wait().await.unwrap();
        // Another test may be starting a child, which has a copy of the pipe for a moment. Writing
        // succeeds as long as this copy exists, so we write again until it fails.
        let error = loop {
            if let Err(error) = stdin.write_all(b"text").await {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn the_output_of_one_child_can_be_the_input_of_another() {
    let pool = pool(1);
    let mut echo = shell("echo pear; echo apple")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = echo.stdout.take().unwrap().into_stdio().unwrap();
    let output = pool.block_on(Command::new("sort").stdin(pipe).output());
    assert_eq!(output.unwrap().stdout, b"apple\npear\n");
    assert!(pool.block_on(echo.wait()).unwrap().success());
}

#[test]
fn waiting_can_be_cancelled_and_a_kill_ends_the_child() {
    let pool = pool(1);
    pool.block_on(async {
        let mut child = endless().spawn().unwrap();
        started(&child).await;
        for _ in 0..3 {
            let wait = timeout(Duration::from_millis(2), child.wait());
            assert!(wait.await.is_err());
        }
        assert!(child.try_wait().unwrap().is_none());
        child.kill().await.unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    });
}

#[test]
fn kill_on_drop_kills_a_dropped_child_and_leaves_no_zombie() {
    let pool = pool(1);
    let id = pool.block_on(async {
        let child = endless().kill_on_drop(true).spawn().unwrap();
        started(&child).await;
        child.id().unwrap()
    });
    // `exists` counts a zombie as well. Therefore this also checks that the killed child is waited
    // for.
    wait_until("the child was not killed", || !exists(id));
    // The runtime must also kill the child if a future that owns it is cancelled.
    let (sender, id) = std::sync::mpsc::channel();
    let task = pool.spawn(async move {
        let child = endless().kill_on_drop(true).spawn().unwrap();
        started(&child).await;
        sender.send(child.id().unwrap()).unwrap();
        child.wait_with_output().await
    });
    let id = id.recv_timeout(HANG_TIMEOUT).unwrap();
    task.abort();
    wait_until("the child was not killed", || !exists(id));
}

#[test]
fn a_dropped_child_continues_and_a_later_child_collects_its_zombie() {
    let pool = pool(1);
    let child = endless().spawn().unwrap();
    pool.block_on(started(&child));
    let id = child.id().unwrap();
    drop(child);
    assert!(exists(id));
    let kill = std::process::Command::new("kill")
        .arg(id.to_string())
        .status();
    assert!(kill.unwrap().success());
    wait_until("a zombie remains", || {
        pool.block_on(Command::new("true").status()).unwrap();
        !exists(id)
    });
}

#[test]
fn many_children_run_at_the_same_time() {
    let pool = pool(2);
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            pool.spawn(async move {
                let mut child = shell(&format!("cat; exit {n}"));
                let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
                let stdin = child.stdin.take().unwrap();
                stdin.write_all(format!("child {n}").as_bytes()).await?;
                drop(stdin);
                child.wait_with_output().await
            })
        })
        .collect();
    pool.block_on(async {
        for (n, task) in (0..).zip(tasks) {
            let output = task.await.unwrap().unwrap();
            assert_eq!(output.status.code(), Some(n));
            assert_eq!(output.stdout, format!("child {n}").into_bytes());
        }
    });
}
