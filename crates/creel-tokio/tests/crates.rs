//! Runs crates that need tokio on a pool.
#![cfg(unix)]

mod common;

use std::convert::Infallible;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use common::{Folder, Redis};
use creel::Pool;
use creel::net::TcpListener;
use creel_tokio::{Tokio, with_tokio};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response, service::service_fn};
use hyper_util::client::legacy::Client;
use redis::AsyncCommands;

async fn echo(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await;
    let length = body.map_or(0, |body| body.to_bytes().len());
    Ok(Response::new(format!("{path} {length}")))
}

#[test]
fn reqwest_gets_answers_of_a_server_on_the_same_pool() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    let server = pool.spawn(creel_hyper::serve(listener, service_fn(echo)).into_future());
    let client = reqwest::Client::new();
    let requests: Vec<_> = (0..50)
        .map(|n| {
            let client = client.clone();
            pool.spawn(with_tokio(async move {
                let url = format!("http://{to}/{n}");
                let sent = client.post(url).body(vec![0; 1000 * n]).send().await?;
                sent.text().await
            }))
        })
        .collect();
    pool.block_on(async {
        for (n, request) in requests.into_iter().enumerate() {
            let text = request.await.unwrap().unwrap();
            assert_eq!(text, format!("/{n} {}", 1000 * n));
        }
    });
    // A name is looked up on one of tokio's threads for blocking calls.
    let url = format!("http://localhost:{}/name", to.port());
    let text = with_tokio(async { client.get(url).send().await?.text().await });
    assert_eq!(pool.block_on(text).unwrap(), "/name 0");
    server.abort();
}

#[test]
fn reqwest_reports_a_timeout() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    // `send` creates its timer at once, and not when it is polled. Therefore we call it inside the
    // wrapped future.
    let answer = with_tokio(async {
        let request = reqwest::Client::new().get(url);
        request.timeout(Duration::from_millis(20)).send().await
    });
    assert!(pool.block_on(answer).unwrap_err().is_timeout());
}

/// Sends requests with the client of hyper-util. Returns how many of tokio's own tasks are alive
/// while the connections of the client are open.
fn tasks_of_a_client<E>(pool: &Pool, tokio: &Tokio, executor: E) -> usize
where
    E: hyper::rt::Executor<BoxedFuture> + Clone + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/path", listener.local_addr().unwrap());
    let server = pool.spawn(creel_hyper::serve(listener, service_fn(echo)).into_future());
    let client = Client::builder(executor).build_http::<String>();
    let alive = pool.block_on(tokio.wrap(async {
        for _ in 0..20 {
            let answer = client.get(url.parse().unwrap()).await.unwrap();
            let body = answer.into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), "/path 0");
        }
        tokio.handle().metrics().num_alive_tasks()
    }));
    server.abort();
    alive
}

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

#[test]
fn a_client_with_our_executor_spawns_nothing_on_the_helper_thread() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let tokio = Tokio::new().unwrap();
    let ours = creel_tokio::Executor::with_tokio(&pool, &tokio);
    assert_eq!(tasks_of_a_client(&pool, &tokio, ours), 0);
    let theirs = hyper_util::rt::TokioExecutor::new();
    assert_ne!(tasks_of_a_client(&pool, &tokio, theirs), 0);
}

#[test]
fn a_service_answers_and_streams_inside_tokios_context() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // The function creates the first timer before it returns its future. The body creates another
    // one when it is polled.
    let service = service_fn(|_: Request<Incoming>| {
        let slept = tokio::time::sleep(Duration::from_millis(1));
        async move {
            slept.await;
            Ok::<_, Infallible>(Response::new(SlowBody::default()))
        }
    });
    let service = creel_tokio::TokioService::new(service);
    let server = pool.spawn(creel_hyper::serve(listener, service).into_future());
    let text = with_tokio(async { reqwest::get(url).await?.text().await });
    assert_eq!(pool.block_on(text).unwrap(), "slow");
    server.abort();
}

/// A body that waits for a timer of tokio before its only frame.
#[derive(Default)]
struct SlowBody {
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    is_sent: bool,
}

impl hyper::body::Body for SlowBody {
    type Data = hyper::body::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Infallible>>> {
        if self.is_sent {
            return Poll::Ready(None);
        }
        let sleep = || Box::pin(tokio::time::sleep(Duration::from_millis(1)));
        let timer = self.timer.get_or_insert_with(sleep);
        ready!(timer.as_mut().poll(cx));
        self.is_sent = true;
        Poll::Ready(Some(Ok(Frame::data(hyper::body::Bytes::from_static(
            b"slow",
        )))))
    }
}

#[test]
fn files_and_child_processes_of_tokio_work() {
    let folder = Folder::new("files");
    let file = folder.path().join("file");
    let pool = Pool::builder().workers(1).build().unwrap();
    let task = pool.spawn(with_tokio(async move {
        tokio::fs::write(&file, "text").await?;
        let text = tokio::fs::read_to_string(&file).await?;
        let output = tokio::process::Command::new("cat")
            .arg(&file)
            .output()
            .await?;
        io::Result::Ok((text, output.stdout))
    }));
    let (text, stdout) = pool.block_on(task).unwrap().unwrap();
    assert_eq!(
        (text.as_str(), stdout.as_slice()),
        ("text", b"text".as_slice())
    );
}

#[test]
fn redis_multiplexes_commands_of_many_tasks() {
    let folder = Folder::new("redis");
    let socket = folder.path().join("socket");
    let Some(_redis) = Redis::start(&socket) else {
        return;
    };
    let pool = Pool::builder().workers(2).build().unwrap();
    let client = redis::Client::open(format!("unix:{}", socket.display())).unwrap();
    let connection = with_tokio(client.get_multiplexed_async_connection());
    let connection = pool.block_on(connection).unwrap();
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let mut connection = connection.clone();
            pool.spawn(with_tokio(async move {
                let key = format!("key-{n}");
                let () = connection.set(&key, n).await?;
                connection.get::<_, u32>(&key).await
            }))
        })
        .collect();
    pool.block_on(async {
        for (n, task) in (0..).zip(tasks) {
            assert_eq!(task.await.unwrap().unwrap(), n);
        }
    });
}
