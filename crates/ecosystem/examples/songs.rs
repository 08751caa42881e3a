//! A web service on a pool: axum answers requests, and sqlx keeps songs in a SQLite file.
//!
//!     cargo run --example songs
//!     curl -d '{"title": "A song"}' -H 'content-type: application/json' 127.0.0.1:8080/songs
//!     curl 127.0.0.1:8080/songs

use std::env;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use creel::net::TcpListener;
use creel_hyper::Tower;
use creel_tokio::{TokioService, with_tokio};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

#[derive(Serialize, Deserialize)]
struct Song {
    title: String,
}

/// Prints an error of the database, and returns the status 500 for the client.
fn internal(error: sqlx::Error) -> StatusCode {
    eprintln!("the database failed: {error}");
    StatusCode::INTERNAL_SERVER_ERROR
}

async fn list(State(db): State<SqlitePool>) -> Result<Json<Vec<Song>>, StatusCode> {
    let titles = sqlx::query_scalar("SELECT title FROM songs ORDER BY title").fetch_all(&db);
    let titles: Vec<String> = titles.await.map_err(internal)?;
    Ok(Json(
        titles.into_iter().map(|title| Song { title }).collect(),
    ))
}

async fn add(State(db): State<SqlitePool>, Json(song): Json<Song>) -> Result<(), StatusCode> {
    let add = sqlx::query("INSERT INTO songs (title) VALUES (?)").bind(song.title);
    add.execute(&db).await.map_err(internal)?;
    Ok(())
}

/// Serves until Ctrl-C.
#[creel::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let file = env::var("DATABASE").unwrap_or("songs.db".into());
    let db = with_tokio(async {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true);
        let db = SqlitePool::connect_with(options).await?;
        let create = sqlx::query("CREATE TABLE IF NOT EXISTS songs (title TEXT NOT NULL)");
        create.execute(&db).await?;
        Ok::<_, sqlx::Error>(db)
    })
    .await?;
    let app = Router::new()
        .route("/songs", get(list).post(add))
        .with_state(db.clone());
    let listener = TcpListener::bind(address.parse()?)?;
    println!("http://{}/songs", listener.local_addr()?);
    // The handlers use sqlx. Therefore they run inside tokio's context.
    let service = TokioService::new(Tower(app));
    let server = creel_hyper::serve(listener, service);
    server.until(creel::signal::ctrl_c()).await;
    with_tokio(db.close()).await;
    Ok(())
}
