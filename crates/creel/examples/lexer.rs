//! Runs a lexer in two ways, and prints what each of them costs per token:
//!
//! - The parser calls the lexer directly.
//! - The lexer is a task of its own, which sends its tokens to the parser over a channel.
//!
//! ```text
//! cargo run --release -p creel --example lexer -- [TOKENS] [WORKERS]
//! ```
//!
//! The text is a sum of numbers in parentheses, and the parser evaluates it. Both ways give the
//! same value.

use creel::Pool;
use creel::channel::bounded;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    Number(u64),
    Plus,
    Open,
    Close,
}

/// Iterates over the tokens of a text.
struct Lexer<'a>(&'a [u8]);

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.0 = self.0.trim_ascii_start();
        let (&first, rest) = self.0.split_first()?;
        let token = match first {
            b'+' => Token::Plus,
            b'(' => Token::Open,
            b')' => Token::Close,
            _ => {
                let digits = self.0.iter().take_while(|c| c.is_ascii_digit()).count();
                let (number, rest) = self.0.split_at(digits.max(1));
                self.0 = rest;
                let value = |value, digit: &u8| value * 10 + u64::from(digit.wrapping_sub(b'0'));
                return Some(Token::Number(number.iter().fold(0, value)));
            }
        };
        self.0 = rest;
        Some(token)
    }
}

/// The parser. It takes one token at a time and adds up the numbers. A number
/// in parentheses is multiplied by their depth.
#[derive(Default)]
struct Sum {
    value: u64,
    depth: u64,
}

impl Sum {
    fn take(&mut self, token: Token) {
        match token {
            Token::Number(number) => self.value += number * self.depth.max(1),
            Token::Open => self.depth += 1,
            Token::Close => self.depth -= 1,
            Token::Plus => {}
        }
    }
}

fn direct(text: &str) -> u64 {
    let mut sum = Sum::default();
    Lexer(text.as_bytes()).for_each(|token| sum.take(token));
    sum.value
}

async fn by_task(text: &'static str) -> u64 {
    let (tx, rx) = bounded::channel(256);
    let lexer = creel::task::spawn(async move {
        for token in Lexer(text.as_bytes()) {
            tx.send(token).await.expect("the parser receives it");
        }
    });
    let mut sum = Sum::default();
    while let Ok(token) = rx.recv().await {
        sum.take(token);
    }
    lexer.await.expect("the lexer does not panic");
    sum.value
}

/// Returns the time of the fastest of nine runs, and the value that it computed.
fn best(mut run: impl FnMut() -> u64) -> (Duration, u64) {
    let timed = |_| {
        let begin = Instant::now();
        let value = run();
        (begin.elapsed(), value)
    };
    (0..9).map(timed).min().expect("nine runs")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (tokens, workers) = (number(1_000_000)?, number(1)?);

    let groups = (0..tokens.div_ceil(6)).map(|i| format!("({} + {}) + ", i % 97, i % 1013));
    let text: &'static str = groups.collect::<String>().leak();
    let count = Lexer(text.as_bytes()).count() as f64;

    let pool = Pool::builder().workers(workers).build()?;
    let (called, value) = best(|| direct(text));
    let (handed, same) = best(|| pool.block_on(by_task(text)));
    assert_eq!(value, same, "both ways compute the same value");
    let each = |time: Duration| time.as_secs_f64() * 1e9 / count;
    println!("{count} tokens, {workers} workers, value {value}");
    println!("called directly:     {:6.1} ns per token", each(called));
    println!("as a task:           {:6.1} ns per token", each(handed));
    println!(
        "the hand-over costs: {:6.1} ns per token",
        each(handed) - each(called)
    );
    Ok(())
}
