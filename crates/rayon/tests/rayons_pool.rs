//! Checks that rayon's own pool is never started. This is the only test in its process, because
//! that pool is global.

use creel::Pool;
use creel_rayon::On;
use rayon::prelude::*;

#[test]
fn rayons_global_pool_is_not_started() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let items: Vec<u64> = (0..10_000).collect();
    let zipped = items
        .par_iter()
        .zip(&items)
        .enumerate()
        .with_min_len(3)
        .on(&pool);
    let odd: Vec<u64> = zipped
        .map(|(i, (a, b))| a + b + i as u64)
        .filter(|n| n % 2 == 1)
        .collect();
    assert_eq!(odd.len(), 5000);
    let words = vec!["a".to_string(); 500]
        .into_par_iter()
        .chain(vec![])
        .on(&pool);
    assert_eq!(words.reduce(String::new, |a, b| a + &b).len(), 500);
    let firsts = items
        .par_chunks(10)
        .rev()
        .on(&pool)
        .find_first(|chunk| chunk[0] < 500);
    assert_eq!(firsts.map(|chunk| chunk[0]), Some(490));
    // The global pool can be created only once. This call fails if the code above has created it.
    let made = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global();
    made.expect("rayon's global pool was started");
}
