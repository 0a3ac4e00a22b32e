//! Numbers with units as iperf3 prints them: three digits that matter.

/// Bytes, with 1024 to the next prefix: `1.10 GBytes`.
pub fn bytes(value: f64) -> String {
    scaled(value, 1_024.0, ["Bytes", "KBytes", "MBytes", "GBytes", "TBytes"])
}

/// Bits per second, with 1000 to the next prefix: `9.42 Gbits/sec`.
pub fn rate(value: f64) -> String {
    scaled(value, 1_000.0, ["bits/sec", "Kbits/sec", "Mbits/sec", "Gbits/sec", "Tbits/sec"])
}

fn scaled(value: f64, step: f64, names: [&str; 5]) -> String {
    let mut value = value;
    let mut index = 0;
    while value >= step && index + 1 < names.len() {
        value /= step;
        index += 1;
    }
    let name = names[index];
    if value < 9.995 {
        format!("{value:4.2} {name}")
    } else if value < 99.95 {
        format!("{value:4.1} {name}")
    } else {
        format!("{value:4.0} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_matter() {
        assert_eq!(rate(9_415_000_000.0), "9.41 Gbits/sec");
        assert_eq!(rate(94_150_000.0), "94.2 Mbits/sec");
        assert_eq!(rate(941_500.0), " 942 Kbits/sec");
        assert_eq!(bytes(1_181_116_006.0), "1.10 GBytes");
        assert_eq!(bytes(0.0), "0.00 Bytes");
        assert_eq!(bytes(654_336.0), " 639 KBytes");
    }
}
