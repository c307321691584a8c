// As args.c, in Rust.
use std::hint::black_box;

pub enum State { Idle, Busy(u16) }
pub struct Conn { pub name: String, pub n: u32, pub state: State }

#[no_mangle]
#[inline(never)]
pub fn greet(c: &Conn, msg: &str, k: i32, v: &[u16]) -> usize {
    let busy = match c.state { State::Idle => 0, State::Busy(n) => n };
    println!("P greet {} {} {} {} {} {} {}", c.n, c.name, msg, k, v.len(), v[1], busy);
    msg.len()
}

#[no_mangle]
#[inline(never)]
pub fn maybe(o: Option<u32>, big: [u64; 5], pair: (u8, u32)) -> Option<u32> {
    println!("P maybe {} {} {} {}", o.unwrap(), big[4], pair.0, pair.1);
    o.map(|n| n + 1)
}

fn main() {
    let mut c = Conn { name: "conn".into(), n: 5, state: State::Busy(700) };
    for i in 0..3u32 {
        black_box(greet(black_box(&c), black_box("hello, world"), -(i as i32), black_box(&[1, 2 + i as u16, 3])));
        black_box(maybe(black_box(Some(i)), black_box([1, 2, 3, 4, i as u64]), black_box((i as u8, 1000 + i))));
        c.n += 1;
    }
    c.state = State::Idle;
    black_box(&c);
}
