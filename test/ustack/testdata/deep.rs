// Closures, trait objects, iterators and the library's sort; a thread.
use std::io::Read;

trait Shape {
    fn area(&self, n: u32) -> u32;
}

struct Square(u32);

#[inline(never)]
fn wait_for_byte() -> u32 {
    let mut b = [0u8; 1];
    print!(".");
    std::io::Write::flush(&mut std::io::stdout()).unwrap();
    if std::io::stdin().lock().read(&mut b).unwrap_or(0) != 1 {
        std::process::exit(0);
    }
    b[0] as u32
}

impl Shape for Square {
    #[inline(never)]
    fn area(&self, n: u32) -> u32 {
        let mut v: Vec<u32> = (0..4).map(|x| (x * 7919 + n) % 13).collect();
        v.sort_by(|a, b| {
            wait_for_byte();
            a.cmp(b)
        });
        v[0] * self.0
    }
}

#[inline(never)]
fn down(n: u32, s: &dyn Shape) -> u32 {
    if n == 0 {
        return s.area(3);
    }
    down(n - 1, s).wrapping_mul(3) + n
}

fn main() {
    loop {
        std::hint::black_box(down(5, &Square(2)));
        std::thread::spawn(|| std::hint::black_box(down(3, &Square(3)))).join().unwrap();
    }
}
