//! Runs sqlx with SQLite on a pool.

mod common;

use std::time::Duration;

use common::Folder;
use creel::Pool;
use creel::task::JoinSet;
use creel_tokio::with_tokio;
use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

/// The number of tasks that use the database at the same time. There are fewer connections.
const TASKS: i64 = 40;
const CONNECTIONS: u32 = 4;

async fn open(folder: &Folder) -> sqlx::Result<SqlitePool> {
    let file = folder.path().join("songs.db");
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .busy_timeout(Duration::from_secs(60));
    SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        .connect_with(options)
        .await
}

async fn count(db: &SqlitePool) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM songs")
        .fetch_one(db)
        .await
}

#[test]
fn tasks_share_a_file_and_its_connections() {
    let folder = Folder::new("sqlite-file");
    let pool = Pool::builder().workers(2).build().unwrap();
    let sum: i64 = pool
        .block_on(with_tokio(async {
            let db = open(&folder).await?;
            sqlx::query("CREATE TABLE songs (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
                .execute(&db)
                .await?;
            let mut tasks = JoinSet::new();
            for id in 0..TASKS {
                let db = db.clone();
                tasks.spawn(with_tokio(async move {
                    sqlx::query("INSERT INTO songs VALUES (?, ?)")
                        .bind(id)
                        .bind(format!("song {id}"))
                        .execute(&db)
                        .await?;
                    sqlx::query_scalar::<_, String>("SELECT title FROM songs WHERE id = ?")
                        .bind(id)
                        .fetch_one(&db)
                        .await
                }));
            }
            let mut titles = Vec::new();
            while let Some(title) = tasks.join_next().await {
                titles.push(title.unwrap()?);
            }
            titles.sort();
            titles.dedup();
            assert_eq!(titles.len(), TASKS as usize);
            // sqlx can also return the rows as a stream.
            let mut rows = sqlx::query_scalar::<_, i64>("SELECT id FROM songs").fetch(&db);
            let mut sum = 0;
            while let Some(id) = rows.try_next().await? {
                sum += id;
            }
            drop(rows);
            db.close().await;
            Ok::<_, sqlx::Error>(sum)
        }))
        .unwrap();
    assert_eq!(sum, (0..TASKS).sum::<i64>());
}

#[test]
fn a_cancelled_task_rolls_its_transaction_back() {
    let folder = Folder::new("sqlite-cancelled");
    let pool = Pool::builder().workers(2).build().unwrap();
    pool.block_on(with_tokio(async {
        let db = open(&folder).await?;
        sqlx::query("CREATE TABLE songs (id INTEGER)")
            .execute(&db)
            .await?;
        let (sender, inserted) = creel::channel::oneshot::channel();
        let of_task = db.clone();
        let task = creel::task::spawn(with_tokio(async move {
            let mut transaction = of_task.begin().await?;
            sqlx::query("INSERT INTO songs VALUES (1)")
                .execute(&mut *transaction)
                .await?;
            sender.send(()).unwrap();
            std::future::pending::<()>().await;
            transaction.commit().await
        }));
        inserted.await.unwrap();
        task.abort();
        assert!(task.await.is_err());
        assert_eq!(count(&db).await?, 0);
        let mut transaction = db.begin().await?;
        sqlx::query("INSERT INTO songs VALUES (2)")
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        assert_eq!(count(&db).await?, 1);
        db.close().await;
        Ok::<_, sqlx::Error>(())
    }))
    .unwrap();
}

#[test]
fn a_database_in_memory_works_in_attributes() {
    #[creel::main(workers = 1)]
    async fn program() -> sqlx::Result<i64> {
        with_tokio(async {
            let db = SqlitePool::connect("sqlite::memory:").await?;
            sqlx::query_scalar("SELECT 6 * 7").fetch_one(&db).await
        })
        .await
    }
    assert_eq!(program().unwrap(), 42);
}

#[test]
fn acquiring_a_connection_times_out() {
    let pool = Pool::builder().workers(1).build().unwrap();
    pool.block_on(with_tokio(async {
        let db = SqlitePoolOptions::new()
            .max_connections(1)
            // The first connection has to open within this time, also on a busy machine.
            .acquire_timeout(Duration::from_secs(2))
            .connect("sqlite::memory:")
            .await
            .unwrap();
        let _held = db.acquire().await.unwrap();
        let error = db.acquire().await.unwrap_err();
        assert!(matches!(error, sqlx::Error::PoolTimedOut), "{error}");
    }));
}
