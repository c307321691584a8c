// Rust: the program prints "MEMBER OFFSET" of a struct.
use std::hint::black_box;
use std::mem::offset_of;

pub enum State { Idle, Busy(u16), Named { len: u64 } }
pub struct Conn { pub name: String, pub n: u32, pub state: State, pub next: Option<Box<Conn>> }

#[no_mangle]
#[inline(never)]
pub fn greet(c: &Conn, msg: &str, k: i32) -> usize { black_box(c.n as usize + msg.len() + (k + 1) as usize) }
#[no_mangle]
#[inline(never)]
pub fn maybe(o: Option<u32>, _unit: (), big: [u64; 5], pair: (u8, u32)) -> Option<u32> { black_box(o.map(|n| n + big[0] as u32 + pair.1)) }

fn main() {
    let c = Conn { name: "n".into(), n: 5, state: State::Busy(7), next: None };
    let (a, b) = (State::Idle, State::Named { len: 1 });
    black_box((&a, &b, greet(&c, black_box("hello"), 1), maybe(black_box(Some(3)), (), black_box([1; 5]), black_box((1, 2)))));
    println!("name {}\nn {}\nstate {}\nnext {}", offset_of!(Conn, name), offset_of!(Conn, n), offset_of!(Conn, state), offset_of!(Conn, next));
}
