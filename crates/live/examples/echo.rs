//! An echo server on a TCP stack of ours, which any program of this machine reaches (as root):
//!
//! ```text
//! cargo run -p ackwright-live --example echo &
//! nc 10.77.0.2 7
//! ```

use live::endpoint::{Settings, Stack, TcpListener};
use std::io::{self, Write as _};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::default();
    let stack = Stack::open(&settings)?;
    let listener = TcpListener::bind(&stack, (settings.address, 7).into())?;
    println!("echo at {}", listener.local_addr());
    loop {
        let stream = listener.accept()?;
        std::thread::spawn(move || echo(&stream));
    }
}

/// Gives back what comes, until the other end is through.
fn echo(stream: &live::endpoint::TcpStream) -> io::Result<()> {
    let mut writer = stream;
    let mut memory = vec![0; 64 << 10];
    loop {
        match stream.read(&mut memory)? {
            0 => return stream.shutdown(std::net::Shutdown::Write),
            len => writer.write_all(&memory[..len])?,
        }
    }
}
