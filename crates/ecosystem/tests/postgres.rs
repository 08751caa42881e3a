//! Runs sqlx with a PostgreSQL server on a pool. The tests start a server of their own, with a Unix
//! socket in a temporary folder. They are skipped if PostgreSQL is not installed.
#![cfg(unix)]

mod common;
#[path = "../examples/jobs.rs"]
mod jobs;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::Folder;
use creel::Pool;
use creel::task::JoinSet;
use creel_tokio::with_tokio;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};

/// The timeout of all waits. Only a hang takes this long.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// The user that Debian's package creates. PostgreSQL refuses to run as root.
const SERVER_USER: &str = "postgres";
const TASKS: i64 = 40;
const CONNECTIONS: u32 = 4;

/// A PostgreSQL server. It ends when it is dropped.
struct Server {
    process: Child,
    folder: Folder,
}

/// Returns the path of one of PostgreSQL's programs. Debian does not add them to `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let mut files = folders.into_iter().map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// Returns a command for one of PostgreSQL's programs, as a user who is not root.
fn command(name: &str, folder: &Folder) -> Option<Command> {
    let program = program(name)?;
    let is_root = fs::metadata(folder.path()).unwrap().uid() == 0;
    if !is_root {
        return Some(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", SERVER_USER, "--regid", SERVER_USER]);
    command.arg("--clear-groups").arg(program);
    Some(command)
}

impl Server {
    /// Starts a server. If PostgreSQL is not installed, prints that the test is skipped, and returns
    /// `None`.
    fn start(name: &str) -> Option<Server> {
        if program("initdb").is_none() || program("postgres").is_none() {
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        }
        let folder = Folder::new(name);
        // The server runs as another user, which creates its files in this folder.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let data = folder.path().join("data");
        let log = File::create(folder.path().join("log")).unwrap();
        let created = command("initdb", &folder)?
            .arg("-D")
            .arg(&data)
            .args(["-U", SERVER_USER, "-A", "trust", "--no-sync"])
            .current_dir(folder.path())
            .stdout(log.try_clone().unwrap())
            .stderr(log.try_clone().unwrap())
            .status()
            .unwrap();
        assert!(created.success(), "{}", text(folder.path()));
        let process = command("postgres", &folder)?
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(folder.path())
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Server { process, folder };
        let begun = Instant::now();
        while !text(server.folder.path()).contains("ready to accept connections") {
            let log = || text(server.folder.path());
            assert!(
                begun.elapsed() < HANG_TIMEOUT,
                "it does not start: {}",
                log()
            );
            thread::sleep(Duration::from_millis(5));
        }
        Some(server)
    }

    async fn connect(&self) -> sqlx::Result<PgPool> {
        let options = PgConnectOptions::new()
            .socket(self.folder.path())
            .username(SERVER_USER)
            .database("postgres");
        PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .connect_with(options)
            .await
    }
}

/// Returns the log of a server.
fn text(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT ends all connections and removes the server's shared memory.
        let process = self.process.id().to_string();
        let _ = Command::new("kill").args(["-INT", &process]).status();
        let _ = self.process.wait();
    }
}

/// The environment variable that makes this process run the example.
const EXAMPLE: &str = "CREEL_POSTGRES_EXAMPLE";

/// Runs the example if the variable is set. The next test starts this one in a child process.
#[test]
fn example() {
    if std::env::var_os(EXAMPLE).is_some() {
        jobs::main().unwrap();
    }
}

#[test]
fn the_example_does_each_job_once() {
    let Some(server) = Server::start("postgres-jobs") else {
        return;
    };
    let folder = server.folder.path().display();
    let run = || {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "example", "--nocapture"])
            .env(EXAMPLE, "")
            .env(
                "DATABASE",
                format!("postgres://{SERVER_USER}@localhost/postgres?host={folder}"),
            )
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let done = |text: &str| -> u32 {
        let counts = text.lines().filter_map(|line| {
            // With one CPU, the test harness has begun the first line with the name of the test.
            let (_, count) = line.split_once("a task did ")?;
            Some(count.strip_suffix(" jobs")?.parse::<u32>().unwrap())
        });
        counts.sum()
    };
    let text = run();
    assert_eq!(done(&text), 20, "{text}");
    assert!(text.contains("the sum of all squares is 2870\n"), "{text}");
    // Nothing is left for a second run.
    let text = run();
    assert_eq!(done(&text), 0, "{text}");
}

#[test]
fn tasks_share_the_connections_to_a_server() {
    let Some(server) = Server::start("postgres-tasks") else {
        return;
    };
    let pool = Pool::builder().workers(2).build().unwrap();
    pool.block_on(with_tokio(async {
        let db = server.connect().await?;
        sqlx::query("CREATE TABLE songs (id BIGINT PRIMARY KEY, title TEXT NOT NULL)")
            .execute(&db)
            .await?;
        let mut tasks = JoinSet::new();
        for id in 0..TASKS {
            let db = db.clone();
            tasks.spawn(with_tokio(async move {
                let mut transaction = db.begin().await?;
                sqlx::query("INSERT INTO songs VALUES ($1, $2)")
                    .bind(id)
                    .bind(format!("song {id}"))
                    .execute(&mut *transaction)
                    .await?;
                match id % 2 {
                    0 => transaction.commit().await,
                    _ => transaction.rollback().await,
                }
            }));
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap()?;
        }
        let mut rows = sqlx::query_as::<_, (i64, String)>("SELECT id, title FROM songs").fetch(&db);
        let mut sum = 0;
        while let Some((id, title)) = rows.try_next().await? {
            assert_eq!(title, format!("song {id}"));
            sum += id;
        }
        drop(rows);
        assert_eq!(sum, (0..TASKS).step_by(2).sum::<i64>());
        db.close().await;
        Ok::<_, sqlx::Error>(())
    }))
    .unwrap();
}

#[test]
fn a_timeout_cancels_a_query_and_notifications_arrive() {
    let Some(server) = Server::start("postgres-notify") else {
        return;
    };
    let pool = Pool::builder().workers(2).build().unwrap();
    pool.block_on(with_tokio(async {
        let db = server.connect().await?;
        let mut listener = PgListener::connect_with(&db).await?;
        listener.listen("songs").await?;
        // Creel's timers work inside tokio's context.
        let sleeps = sqlx::query("SELECT pg_sleep(600)").execute(&db);
        let limit = Duration::from_millis(50);
        assert!(creel::time::timeout(limit, sleeps).await.is_err());
        let of_task = db.clone();
        let task = creel_tokio::spawn(async move {
            let notify = sqlx::query("SELECT pg_notify('songs', 'new')");
            notify.execute(&of_task).await
        });
        assert_eq!(listener.recv().await?.payload(), "new");
        task.await.unwrap()?;
        Ok::<_, sqlx::Error>(())
    }))
    .unwrap();
}
