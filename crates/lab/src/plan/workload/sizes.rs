//! How large flows are.
//!
//! The shipped distributions are a few points each, read from figures of papers, with straight lines
//! between them (of the size against its probability). They are coarse by nature.

use datapath::rng::Rng;

/// Points of a cumulative distribution: bytes, and the share of flows of at most so many. Both rise,
/// and the last share is 1.
pub type Points = Vec<(f64, f64)>;

/// A distribution of sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(u64),
    /// Straight lines between the points of a cumulative distribution.
    Cdf(Points),
    /// Exponential, with this mean.
    Exponential(f64),
    /// Pareto, with this mean and shape (above 1).
    Pareto(f64, f64),
}

/// No flow is larger: 1 TiB.
const LARGEST: f64 = (1_u64 << 40) as f64;

/// Web search: Alizadeh et al., "Data center TCP (DCTCP)", SIGCOMM 2010, figure 4 (the flow sizes of
/// the background traffic; as plotted also in pFabric, SIGCOMM 2013, figure 4a).
const WEB_SEARCH: [(f64, f64); 12] = [
    (1e3, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// Data mining: Greenberg et al., "VL2: a scalable and flexible data center network", SIGCOMM 2009,
/// figure 2 (flow sizes; as plotted also in pFabric, figure 4b).
const DATA_MINING: [(f64, f64); 9] = [
    (100.0, 0.0),
    (1e3, 0.5),
    (2e3, 0.6),
    (3e3, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3e6, 0.95),
    (100e6, 0.99),
    (1e9, 1.0),
];

/// Web servers: Roy et al., "Inside the social network's (datacenter) network", SIGCOMM 2015, figure 6a,
/// all flows.
const FACEBOOK_WEB: [(f64, f64); 9] = [
    (70.0, 0.0),
    (150.0, 0.2),
    (500.0, 0.3),
    (1.5e3, 0.45),
    (10e3, 0.75),
    (30e3, 0.87),
    (100e3, 0.95),
    (1e6, 0.995),
    (10e6, 1.0),
];

/// Cache followers: the same, figure 6b.
const FACEBOOK_CACHE: [(f64, f64); 8] = [
    (70.0, 0.0),
    (200.0, 0.1),
    (1e3, 0.3),
    (3e3, 0.45),
    (10e3, 0.53),
    (100e3, 0.65),
    (1e6, 0.88),
    (10e6, 1.0),
];

/// Hadoop: the same, figure 6c. The text says: the median is below 1 kB, 70 % are below 10 kB, less
/// than 5 % above 1 MB.
const FACEBOOK_HADOOP: [(f64, f64); 8] = [
    (70.0, 0.0),
    (300.0, 0.3),
    (900.0, 0.5),
    (10e3, 0.7),
    (100e3, 0.87),
    (1e6, 0.955),
    (10e6, 0.99),
    (100e6, 1.0),
];

/// The shipped distributions by name.
pub const KNOWN: [(&str, &[(f64, f64)]); 5] = [
    ("web-search", &WEB_SEARCH),
    ("data-mining", &DATA_MINING),
    ("facebook-web", &FACEBOOK_WEB),
    ("facebook-cache", &FACEBOOK_CACHE),
    ("facebook-hadoop", &FACEBOOK_HADOOP),
];

impl Sizes {
    /// The mean in bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => *bytes as f64,
            Self::Exponential(mean) | Self::Pareto(mean, _) => *mean,
            Self::Cdf(points) => {
                let part = |two: &[(f64, f64)]| (two[1].1 - two[0].1) * (two[0].0 + two[1].0) / 2.0;
                let first = points[0].0 * points[0].1;
                first + points.windows(2).map(part).sum::<f64>()
            }
        }
    }

    /// The size of one flow, at least 1. It is the same on every machine: `libm` is written out.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let bytes = match self {
            Self::Fixed(bytes) => return *bytes,
            Self::Exponential(mean) => -mean * libm::log(unit(rng)),
            Self::Pareto(mean, shape) => {
                mean * (shape - 1.0) / shape * libm::pow(unit(rng), -1.0 / shape)
            }
            Self::Cdf(points) => quantile(points, unit(rng)),
        };
        bytes.clamp(1.0, LARGEST) as u64
    }
}

/// A number above 0 and at most 1, in steps of 2⁻⁵³.
pub fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// The size that this share of flows does not exceed.
fn quantile(points: &[(f64, f64)], share: f64) -> f64 {
    let at = points.partition_point(|point| point.1 < share).min(points.len() - 1);
    if at == 0 {
        return points[0].0;
    }
    let ((from, low), (to, high)) = (points[at - 1], points[at]);
    from + (to - from) * (share - low) / (high - low)
}

/// Reads `BYTES SHARE` lines, with blanks or a comma between, `#` before remarks.
///
/// # Errors
/// `LINE: what is wrong`.
pub fn parse_cdf(text: &str) -> Result<Points, String> {
    let mut points: Points = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line
            .split(|c: char| c == ',' || c.is_whitespace())
            .filter(|it| !it.is_empty())
            .collect();
        let [bytes, share] = words.as_slice() else {
            if words.is_empty() {
                continue;
            }
            return Err(format!(
                "{number}: expected bytes and a share, found {} words",
                words.len()
            ));
        };
        let both = (bytes.parse::<f64>(), share.parse::<f64>());
        let (Ok(bytes), Ok(share)) = both else {
            return Err(format!("{number}: \"{}\" is not two numbers", words.join(" ")));
        };
        if !(1.0..=LARGEST).contains(&bytes) || !(0.0..=1.0).contains(&share) {
            return Err(format!("{number}: sizes are 1 to 2^40 bytes, shares 0 to 1"));
        }
        if points.last().is_some_and(|last| bytes < last.0 || share < last.1) {
            return Err(format!("{number}: sizes and shares must rise from line to line"));
        }
        points.push((bytes, share));
    }
    match points.last() {
        None => Err("1: there are no points".into()),
        Some((_, share)) if *share < 1.0 => {
            Err(format!("{}: the last share must be 1, not {share}", text.lines().count()))
        }
        Some(_) => Ok(points),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of many draws is the mean; shares of draws below a point are its share.
    #[test]
    fn draws_are_distributed_as_the_points_say() {
        for (name, points) in KNOWN {
            let sizes = Sizes::Cdf(points.to_vec());
            let mut rng = Rng::stream(1, 2);
            let draws: Vec<u64> = (0..200_000).map(|_| sizes.draw(&mut rng)).collect();
            let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
            assert!((mean / sizes.mean() - 1.0).abs() < 0.05, "{name}: {mean} {}", sizes.mean());
            for (bytes, share) in points {
                let below = draws.iter().filter(|draw| **draw as f64 <= *bytes).count();
                assert!((below as f64 / draws.len() as f64 - share).abs() < 0.01, "{name} {bytes}");
            }
        }
    }

    #[test]
    fn formulas_have_their_means() {
        for sizes in [Sizes::Exponential(1e5), Sizes::Pareto(1e5, 2.5), Sizes::Fixed(7)] {
            let mut rng = Rng::stream(3, 4);
            let sum: u64 = (0..300_000).map(|_| sizes.draw(&mut rng)).sum();
            let mean = sum as f64 / 300_000.0;
            assert!((mean / sizes.mean() - 1.0).abs() < 0.03, "{sizes:?}: {mean}");
        }
        assert!((1.5e6..1.8e6).contains(&Sizes::Cdf(WEB_SEARCH.to_vec()).mean()));
    }

    #[test]
    fn a_file_of_points_is_checked() {
        assert_eq!(parse_cdf("# x\n1000 0.5\n2000,1\n").unwrap(), [(1e3, 0.5), (2e3, 1.0)]);
        for (text, what) in [
            ("", "no points"),
            ("1000 0.5\n", "1: the last share must be 1, not 0.5"),
            ("1000 0.5\n900 1\n", "2: sizes and shares must rise"),
            ("1000 0.5 3\n", "1: expected bytes and a share, found 3 words"),
            ("a 1\n", "not two numbers"),
            ("1000 1.5\n", "shares 0 to 1"),
        ] {
            let error = parse_cdf(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
