//! Redis servers for tests. Each has its own folder, socket and port, and is killed on drop.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::process::{Folder, eventually, exists, signal};

/// Returns whether a Redis server is installed, and says so if it is not.
pub fn is_installed() -> bool {
    let version = Command::new("redis-server").arg("--version").output();
    if version.is_err() {
        println!("skipped: redis-server is not installed");
    }
    version.is_ok()
}

/// A Redis server. It writes all acknowledged data to a file.
pub struct Redis {
    child: Child,
    /// The path of its socket.
    pub socket: String,
    pub port: u16,
    /// The password of the default user.
    password: Option<String>,
}

impl Redis {
    /// Starts a server. `name` is the name of its folder in `folder`.
    pub fn start(folder: &Folder, name: &str, arguments: &[&str]) -> Redis {
        // Another process may take the free port before the server opens it. The same is true for
        // the port that is 10,000 higher, which a node of a cluster also needs. Therefore, we try
        // several ports.
        let started = (0..5).find_map(|_| Redis::try_start(folder, name, free_port(), arguments));
        started.expect("redis-server does not start")
    }

    /// Starts a server again on its port after it was killed.
    pub fn start_on(folder: &Folder, name: &str, port: u16, arguments: &[&str]) -> Redis {
        let started = Redis::try_start(folder, name, port, arguments);
        started.expect("redis-server does not start")
    }

    /// Starts a server. Returns `None` if it ends at once.
    fn try_start(folder: &Folder, name: &str, port: u16, arguments: &[&str]) -> Option<Redis> {
        let own = folder.path(name);
        std::fs::create_dir_all(&own).unwrap();
        let socket = format!("{own}/redis.sock");
        // A killed server leaves its socket behind.
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new("redis-server");
        command.args([
            "--bind",
            "127.0.0.1",
            "--unixsocket",
            &socket,
            "--dir",
            &own,
        ]);
        if !arguments.contains(&"--port") {
            command.args(["--port", &port.to_string()]);
        }
        command.args([
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--save",
            "",
        ]);
        // Replicas synchronize at once.
        command.args(["--repl-diskless-sync-delay", "0"]);
        let child = command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut redis = Redis {
            child,
            socket,
            port,
            password: password(arguments),
        };
        let mut has_ended = false;
        eventually("redis answers", || {
            has_ended = redis.child.try_wait().unwrap().is_some();
            // An error of the server, for example because it is loading its data, is an answer.
            has_ended || exists(&redis.socket) && redis.answers()
        });
        (!has_ended).then_some(redis)
    }

    /// Starts a Sentinel that watches the master `main` on a port.
    pub fn sentinel(folder: &Folder, name: &str, master: u16, lines: &str) -> Redis {
        let own = folder.path(name);
        std::fs::create_dir_all(&own).unwrap();
        let port = free_port();
        let socket = format!("{own}/redis.sock");
        let file = format!("{own}/sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nunixsocket {socket}\ndir {own}\n\
             sentinel monitor main 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 2000\n{lines}"
        );
        std::fs::write(&file, text).unwrap();
        let child = Command::new("redis-server")
            .args([&file, "--sentinel"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the Sentinel listens", || exists(&socket));
        Redis {
            child,
            socket,
            port,
            password: None,
        }
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Connects, and logs in if the server was started with a password.
    pub fn connect(&self) -> redis::Connection {
        self.try_connect().unwrap()
    }

    fn try_connect(&self) -> redis::RedisResult<redis::Connection> {
        let place = redis::ConnectionAddr::Unix(self.socket.clone().into());
        let client = redis::Client::open(place)?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(60))?;
        if let Some(password) = &self.password {
            // The server may have another password now.
            let _ = redis::cmd("AUTH").arg(password).exec(&mut connection);
        }
        Ok(connection)
    }

    /// Returns whether the server answers.
    fn answers(&self) -> bool {
        let place = redis::ConnectionAddr::Unix(self.socket.clone().into());
        let connected = redis::Client::open(place)
            .and_then(|client| client.get_connection_with_timeout(Duration::from_secs(60)));
        let pinged = connected.and_then(|mut it| redis::cmd("PING").query::<String>(&mut it));
        pinged.map_or_else(|error| error.code().is_some(), |_| true)
    }

    /// Executes a command, for example `CONFIG SET maxmemory 1`.
    pub fn call<T: redis::FromRedisValue>(&self, command: &str) -> redis::RedisResult<T> {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        // A Sentinel closes all connections to a master that it makes a replica.
        command.query(&mut self.try_connect()?)
    }

    /// Executes a command that must succeed.
    pub fn execute(&self, command: &str) {
        let done: redis::RedisResult<redis::Value> = self.call(command);
        done.unwrap_or_else(|error| panic!("{command}: {error}"));
    }

    /// Returns a field of `INFO`.
    pub fn info(&self, field: &str) -> String {
        let text: String = self.call("INFO").unwrap_or_default();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the password in the arguments of a server.
fn password(arguments: &[&str]) -> Option<String> {
    let flag = arguments
        .iter()
        .position(|argument| *argument == "--requirepass")?;
    arguments
        .get(flag + 1)
        .map(|password| (*password).to_owned())
}

/// Returns a port that is free now. No two calls return the same one.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut given = GIVEN.lock().unwrap();
        // A node of a cluster also uses the port that is 10,000 higher.
        if !given.contains(&port) && port < 55_000 {
            given.push(port);
            return port;
        }
    }
}
