//! Serves axum's extractors, its WebSockets and its timers with creel-hyper.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, Form, Multipart, Path, Query};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use creel::Pool;
use creel::net::TcpListener;
use creel_hyper::Tower;
use creel_tokio::{Executor, Tokio, TokioService, with_tokio};
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite;
use tower::ServiceBuilder;

/// The timeout of all waits. Only a hang takes this long.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a server, and runs a client against it.
fn serve<F: Future>(app: Router, tokio: &Tokio, client: impl FnOnce(SocketAddr) -> F) -> F::Output {
    let pool = Pool::builder().workers(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let service = TokioService::with_tokio(Tower(app), tokio);
    let server = creel_hyper::serve(listener, service);
    let server = pool.spawn(async move { server.await }).abort_on_drop();
    let client = creel::time::timeout(HANG_TIMEOUT, client(address));
    let output = pool.block_on(with_tokio(client));
    drop(server);
    output.expect("a client waits for the server")
}

#[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
struct Song {
    title: String,
    seconds: u32,
}

async fn upload(mut form: Multipart) -> Result<String, StatusCode> {
    let mut parts = Vec::new();
    while let Some(mut field) = form
        .next_field()
        .await
        .map_err(|_| StatusCode::BAD_REQUEST)?
    {
        let name = field.name().unwrap_or_default().to_owned();
        let mut length = 0;
        while let Some(chunk) = field.chunk().await.map_err(|_| StatusCode::BAD_REQUEST)? {
            length += chunk.len();
        }
        parts.push(format!("{name} {length}"));
    }
    Ok(parts.join(", "))
}

#[test]
fn extractors_read_paths_queries_forms_json_and_multipart() {
    let app = Router::new()
        .route(
            "/songs/{id}",
            get(async |Path(id): Path<u32>| id.to_string()),
        )
        .route("/query", get(async |Query(song): Query<Song>| song.title))
        .route("/form", post(async |Form(song): Form<Song>| Json(song)))
        .route("/json", post(async |Json(song): Json<Song>| Json(song)))
        .route("/upload", post(upload))
        .layer(DefaultBodyLimit::max(4 << 20));
    serve(app, Tokio::global(), async |address| {
        let client = reqwest::Client::new();
        let url = |path: &str| format!("http://{address}{path}");
        let get = async |path| {
            let answer = client.get(url(path)).send().await.unwrap();
            answer.text().await.unwrap()
        };
        assert_eq!(get("/songs/7").await, "7");
        assert_eq!(get("/query?title=A+song&seconds=3").await, "A song");
        let post = async |path, kind, body: &'static str| {
            let request = client.post(url(path)).header("content-type", kind);
            let answer = request.body(body).send().await.unwrap();
            serde_json::from_str::<Song>(&answer.text().await.unwrap()).unwrap()
        };
        let song = Song {
            title: "A song".into(),
            seconds: 3,
        };
        let form = "application/x-www-form-urlencoded";
        assert_eq!(post("/form", form, "title=A+song&seconds=3").await, song);
        let json = r#"{"title": "A song", "seconds": 3}"#;
        assert_eq!(post("/json", "application/json", json).await, song);
        // The file arrives in many pieces.
        let file = reqwest::multipart::Part::bytes(vec![7; 1 << 20]).file_name("song.vgm");
        let form = reqwest::multipart::Form::new()
            .text("title", "A song")
            .part("file", file);
        let request = client.post(url("/upload")).multipart(form);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "title 6, file 1048576");
    });
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.next().await {
        if matches!(message, Message::Text(_) | Message::Binary(_))
            && socket.send(message).await.is_err()
        {
            break;
        }
    }
}

/// axum runs the closure in a task of tokio. We therefore spawn the work on the pool.
async fn upgrade(upgrade: WebSocketUpgrade) -> Response {
    let executor = Executor::current();
    upgrade.on_upgrade(async move |socket| executor.spawn(echo(socket)))
}

#[test]
fn a_websocket_runs_on_the_pool() {
    let tokio = Tokio::new().unwrap();
    let app = Router::new().route("/echo", get(upgrade));
    serve(app, &tokio, async |address| {
        let url = format!("ws://{address}/echo");
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        for n in 0..50 {
            let message = tungstenite::Message::text(format!("message {n}"));
            socket.send(message.clone()).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), message);
        }
        // The task of tokio ends, although the socket is still open.
        while tokio.handle().metrics().num_alive_tasks() > 0 {
            creel::time::sleep(Duration::from_millis(1)).await;
        }
        socket.close(None).await.unwrap();
    });
}

#[test]
fn server_sent_events_are_kept_alive_by_a_timer_of_tokio() {
    let silent = async || {
        let events = futures_util::stream::pending::<Result<Event, Infallible>>();
        let interval = Duration::from_millis(5);
        Sse::new(events).keep_alive(KeepAlive::new().interval(interval).text("alive"))
    };
    let app = Router::new().route("/events", get(silent));
    serve(app, Tokio::global(), async |address| {
        let url = format!("http://{address}/events");
        let mut answer = reqwest::get(url).await.unwrap();
        let mut text = Vec::new();
        while text.len() < 3 * b": alive\n\n".len() {
            text.extend_from_slice(&answer.chunk().await.unwrap().unwrap());
        }
        assert!(text.starts_with(b": alive\n\n: alive\n\n"));
    });
}

#[test]
fn towers_timeout_ends_a_handler() {
    let slow = async || {
        std::future::pending::<()>().await;
        "never"
    };
    let late = async |_: axum::BoxError| StatusCode::REQUEST_TIMEOUT.into_response();
    let app = Router::new().route("/", get(slow)).layer(
        ServiceBuilder::new()
            .layer(axum::error_handling::HandleErrorLayer::new(late))
            .timeout(Duration::from_millis(20)),
    );
    serve(app, Tokio::global(), async |address| {
        let answer = reqwest::get(format!("http://{address}/")).await.unwrap();
        assert_eq!(answer.status(), 408);
    });
}
