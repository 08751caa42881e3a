//! Tests of serving with one listener per pool.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use creel::channel::oneshot;
use creel_hyper::{End, Event, PerCore, serve};
use hyper::body::Incoming;
use hyper::{Request, Response, service::service_fn};

/// The timeout of all waits. It is long, because only a test that hangs should reach it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECTIONS: usize = 64;

/// Answers with the thread that runs the service.
async fn thread_name(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(format!("{:?}", thread::current().id())))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    stream
}

/// Sends a request and returns the body of its response.
fn ask(mut stream: &TcpStream) -> String {
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    let (mut answer, mut bytes) = (String::new(), [0; 1024]);
    loop {
        let read = stream.read(&mut bytes).unwrap();
        assert_ne!(read, 0, "the connection ended after {answer:?}");
        answer.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        if let Some((_, body)) = answer
            .split_once("\r\n\r\n")
            .filter(|(_, body)| body.ends_with(')'))
        {
            return body.to_owned();
        }
    }
}

#[test]
fn connections_stay_with_the_worker_that_accepted_them() {
    let pools = PerCore::pools(2).unwrap();
    let workers = [0, 1].map(|n: usize| {
        let id = pools[n].run_on(0, || thread::current().id()).unwrap();
        format!("{id:?}")
    });
    let servers = PerCore::bind("127.0.0.1:0".parse().unwrap(), &pools).unwrap();
    let address = servers.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let client = thread::spawn(move || {
        let mut of_worker = HashMap::new();
        let streams: Vec<_> = (0..CONNECTIONS).map(|_| connect(address)).collect();
        for _ in 0..3 {
            for (number, stream) in streams.iter().enumerate() {
                let worker = ask(stream);
                let first = of_worker.entry(number).or_insert_with(|| worker.clone());
                assert_eq!(worker, *first);
            }
        }
        stop.send(()).unwrap();
        // Reading returns 0, because the server has ended the idle connections.
        for mut stream in streams {
            assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
        }
        of_worker.into_values().collect::<Vec<_>>()
    });
    let main = creel::Pool::builder().workers(1).build().unwrap();
    main.block_on(servers.until(stopped, |listener| serve(listener, service_fn(thread_name))));
    let used = client.join().unwrap();
    assert!(used.iter().all(|worker| workers.contains(worker)));
    // The kernel chooses a listener by a hash of the ports. It is as unlikely that it chooses the
    // same listener for all connections as that 64 coin tosses are all equal.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    assert!(workers.iter().all(|worker| used.contains(worker)));
    assert!(TcpStream::connect(address).is_err(), "a listener is open");
}

#[test]
fn a_panic_of_one_server_ends_all() {
    let pools = PerCore::pools(2).unwrap();
    let servers = PerCore::bind("127.0.0.1:0".parse().unwrap(), &pools).unwrap();
    let address = servers.local_addr().unwrap();
    let client = thread::spawn(move || drop(connect(address)));
    let main = creel::Pool::builder().workers(1).build().unwrap();
    let run = || {
        main.block_on(servers.until(std::future::pending::<()>(), |listener| {
            serve(listener, service_fn(thread_name)).on_event(|event| {
                if let Event::Ended(End::Done) = event {
                    panic!("on purpose");
                }
            })
        }));
    };
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
    client.join().unwrap();
    drop(pools);
    assert!(TcpStream::connect(address).is_err(), "a listener is open");
}
