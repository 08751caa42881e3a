//! A queue of jobs in PostgreSQL. Several tasks take jobs from it, and no job is taken twice.
//!
//!     DATABASE=postgres://user:password@localhost/name cargo run --example jobs

use std::{env, io};

use creel::task::JoinSet;
use creel_tokio::with_tokio;
use sqlx::postgres::{PgPool, PgPoolOptions};

const TASKS: u32 = 4;

/// Takes jobs until none is left. Returns how many it took.
async fn work(db: PgPool) -> sqlx::Result<usize> {
    let mut done = 0;
    loop {
        let mut transaction = db.begin().await?;
        // Jobs that other tasks have locked are skipped. If this program ends too early, PostgreSQL
        // unlocks them.
        let take = "SELECT number FROM jobs WHERE square IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED";
        let take = sqlx::query_scalar(take);
        let Some(number): Option<i64> = take.fetch_optional(&mut *transaction).await? else {
            return Ok(done);
        };
        let finish = sqlx::query("UPDATE jobs SET square = $1 WHERE number = $2");
        let finish = finish.bind(number * number).bind(number);
        finish.execute(&mut *transaction).await?;
        transaction.commit().await?;
        done += 1;
    }
}

async fn run(database: &str) -> sqlx::Result<()> {
    let options = PgPoolOptions::new().max_connections(TASKS);
    let db = options.connect(database).await?;
    for prepare in [
        "CREATE TABLE IF NOT EXISTS jobs (number BIGINT PRIMARY KEY, square BIGINT)",
        "INSERT INTO jobs SELECT generate_series(1, 20) ON CONFLICT DO NOTHING",
    ] {
        sqlx::query(prepare).execute(&db).await?;
    }
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(with_tokio(work(db.clone())));
    }
    while let Some(done) = tasks.join_next().await {
        println!("a task did {} jobs", done.map_err(io::Error::other)??);
    }
    let sum = sqlx::query_scalar("SELECT sum(square)::BIGINT FROM jobs");
    let sum: i64 = sum.fetch_one(&db).await?;
    println!("the sum of all squares is {sum}");
    db.close().await;
    Ok(())
}

/// Does the jobs of the database that the variable `DATABASE` names.
#[creel::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let database = env::var("DATABASE").unwrap_or("postgres://postgres@localhost/postgres".into());
    with_tokio(run(&database)).await?;
    Ok(())
}
