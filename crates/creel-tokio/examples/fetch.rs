//! Fetches pages with reqwest, all at the same time, and prints their sizes.
//!
//!     PAGES="http://example.com http://example.org" cargo run -p creel-tokio --example fetch

use std::env;

use creel::task::JoinSet;
use creel_tokio::with_tokio;

/// Fetches the pages that the variable `PAGES` names.
#[creel::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let pages = env::var("PAGES").unwrap_or("http://example.com".into());
    // One client for all tasks, because it keeps the connections.
    let client = reqwest::Client::new();
    let mut tasks = JoinSet::new();
    for page in pages.split_whitespace().map(str::to_owned) {
        let client = client.clone();
        tasks.spawn(with_tokio(async move {
            let answer = client.get(&page).send().await?.error_for_status()?;
            let body = answer.bytes().await?;
            Ok::<_, reqwest::Error>((page, body.len()))
        }));
    }
    while let Some(fetched) = tasks.join_next().await {
        let (page, bytes) = fetched??;
        println!("{page} has {bytes} bytes");
    }
    Ok(())
}
