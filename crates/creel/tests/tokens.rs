//! Tests of cancellation tokens: which tokens a cancel reaches, and how long a chain of them may
//! be.

use creel::task::CancellationToken;

#[test]
fn cancelling_a_token_reaches_grandchildren_whose_parent_was_dropped() {
    let root = CancellationToken::new();
    let grandchild = root.child().child();
    let cousin = root.child().child();
    cousin.cancel();
    assert!(!root.is_cancelled() && !grandchild.is_cancelled());
    root.cancel();
    assert!(grandchild.is_cancelled());
}

#[test]
fn a_long_chain_of_tokens_is_cancelled_and_dropped() {
    // A recursive drop would overflow the stack here.
    let root = CancellationToken::new();
    let mut chain = vec![root.child()];
    for _ in 0..if cfg!(miri) { 100 } else { 200_000 } {
        chain.push(chain[chain.len() - 1].child());
    }
    let last = chain.pop().unwrap();
    // Only the last token keeps the chain alive.
    drop(chain);
    root.cancel();
    assert!(last.is_cancelled());
    drop(last);
}
