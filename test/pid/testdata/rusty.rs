// Threads, a hash table, a panic that is caught; ends with status 9.
use std::collections::HashMap;
use std::thread;

#[no_mangle]
#[inline(never)]
pub extern "C" fn counted_work(n: u64) -> u64 {
    let mut m = HashMap::new();
    for i in 0..n {
        m.insert(format!("k{}", i), i);
    }
    m.values().sum()
}

fn main() {
    let threads: Vec<_> = (0..4).map(|i| thread::spawn(move || counted_work(20 * (i + 1)))).collect();
    let sum: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    println!("{}", sum);
    std::panic::set_hook(Box::new(|_| println!("panic")));
    println!("{}", std::panic::catch_unwind(|| if sum > 0 { panic!("boom") }).is_err());
    std::process::exit(9)
}
