//! Runs the examples that are servers or clients of HTTP, each in a process of its own.

mod common;
#[path = "../examples/grpc_client.rs"]
mod grpc_client;
#[path = "../examples/songs.rs"]
mod songs;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use common::Folder;
use creel::Pool;
use creel::net::TcpListener;
use creel_hyper::Tower;
use creel_tokio::with_tokio;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::health_reporter;

/// The environment variable with the name of the example that this process runs.
const EXAMPLE: &str = "CREEL_ECOSYSTEM_EXAMPLE";

/// Runs the example that the variable names. The other tests start this one in a child process.
/// Without the variable it does nothing.
#[test]
fn example() {
    let ended = match std::env::var(EXAMPLE).as_deref() {
        Ok("grpc_client") => grpc_client::main(),
        Ok("songs") => songs::main(),
        _ => Ok(()),
    };
    ended.unwrap();
}

/// Returns a command that runs an example.
fn run(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "example", "--nocapture"]);
    command.env(EXAMPLE, name).stdout(Stdio::piped());
    command
}

/// A server in a process of its own, which is killed on drop.
struct Running {
    process: Child,
    /// We keep the pipe open, because the process would otherwise fail when it prints.
    _stdout: BufReader<ChildStdout>,
    url: String,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut process = command.env("LISTEN", "127.0.0.1:0").spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut lines = stdout.by_ref().lines().map(Result::unwrap);
        let url = lines.find_map(|line| Some(line[line.find("http://")?..].to_owned()));
        Running {
            process,
            _stdout: stdout,
            url: url.expect("the example printed no address"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn songs_are_kept_in_a_file() {
    let folder = Folder::new("songs");
    let pool = Pool::builder().workers(1).build().unwrap();
    for round in 1..=2 {
        let mut command = run("songs");
        command.env("DATABASE", folder.path().join("songs.db"));
        let server = Running::start(command);
        let listed = with_tokio(async {
            let client = reqwest::Client::new();
            let song = serde_json::json!({ "title": format!("song {round}") }).to_string();
            let add = client.post(&server.url).body(song);
            let add = add.header("content-type", "application/json");
            add.send().await?.error_for_status()?;
            client.get(&server.url).send().await?.text().await
        });
        let listed = pool.block_on(listed).unwrap();
        assert_eq!(listed.matches("title").count(), round, "{listed}");
    }
}

#[test]
fn the_grpc_client_prints_the_health_of_a_server() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (reporter, health) = health_reporter();
    let set = reporter.set_service_status("songs", ServingStatus::Serving);
    pool.block_on(set);
    let server = creel_hyper::serve(listener, Tower(Routes::new(health)));
    let server = pool.spawn(async move { server.await }).abort_on_drop();
    let mut client = run("grpc_client");
    let output = client.env("SERVER", format!("http://{address}")).output();
    let output = output.unwrap();
    drop(server);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Serving"), "{text}");
}
