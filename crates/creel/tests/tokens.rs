//! Tokens by which many are told to come to their end: who is told, and how long a line may be.

use creel::task::CancellationToken;

#[test]
fn who_is_told_does_not_depend_on_who_keeps_the_one_between() {
    let root = CancellationToken::new();
    let grandchild = root.child().child();
    let cousin = root.child().child();
    cousin.cancel();
    assert!(!root.is_cancelled() && !grandchild.is_cancelled());
    root.cancel();
    assert!(grandchild.is_cancelled());
}

#[test]
fn a_long_line_is_told_and_dropped() {
    // By recursion this would overflow the stack.
    let root = CancellationToken::new();
    let mut line = vec![root.child()];
    for _ in 0..if cfg!(miri) { 100 } else { 200_000 } {
        line.push(line[line.len() - 1].child());
    }
    let last = line.pop().unwrap();
    // Kept by the last one alone.
    drop(line);
    root.cancel();
    assert!(last.is_cancelled());
    drop(last);
}
