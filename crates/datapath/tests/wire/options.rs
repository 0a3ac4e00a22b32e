//! Laws of walking over TCP options.

use datapath::packet::TcpOptions;
use datapath::packet::options::{RawOption, RawOptions};

/// Walks over `bytes` as the options of a TCP header.
pub fn check_options(bytes: &[u8]) {
    let covered: usize = RawOptions::new(bytes).map(|option| 2 + option.data.len()).sum();
    assert!(covered <= bytes.len());
    RawOptions::new(bytes).map(RawOption::decode).for_each(drop);
    let (options, canonical) = TcpOptions::parse(bytes);
    if canonical {
        let mut out = vec![0; options.len() as usize];
        options.write(&mut out);
        assert_eq!(out, bytes);
    }
}
