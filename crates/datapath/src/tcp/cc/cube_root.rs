//! The cube root of CUBIC, as coarse as the kernel's (`cubic_root`): a first guess by the leading
//! six bits, then one Newton step in integers (Ha, Rhee and Xu, "CUBIC: a new TCP-friendly
//! high-speed TCP variant", 2008).
//!
//! The guesses are derived from measurements, not copied. A 7.3 kernel reported K for each of 6,000 distances to the old
//! window, and before that a 6.1 kernel's windows were observed. Each guess is the only value that gives all K with its leading bits.

/// 64 times the cube root of the leading bits, about 2 % high, from 8 on.
const FIRST_GUESS: [u16; 56] = [
    133, 139, 144, 148, 153, 157, 161, 166, 167, 171, 174, 178, 180, 183, 186, 189, 191, 195, 197,
    200, 202, 204, 207, 209, 210, 212, 214, 216, 219, 221, 223, 225, 227, 229, 231, 232, 234, 235,
    237, 239, 241, 242, 244, 246, 247, 249, 250, 252, 254, 255, 256, 258, 260, 261, 262, 264,
];

/// The cube root of `a`, within half a percent.
pub(super) fn cubic_root(a: u64) -> u32 {
    let bits = u64::BITS - a.leading_zeros();
    if bits < 7 {
        // To the nearest, from the floor of twice the root.
        return integer_root(8 * a).div_ceil(2);
    }
    // A third of the bits that the guess leaves out: 84/256 is nearly 1/3.
    let shift = ((bits * 84) >> 8) - 1;
    let leading = (a >> (3 * shift)) as usize;
    debug_assert!((8..64).contains(&leading), "four to six bits lead");
    let guess = u64::from((u32::from(FIRST_GUESS[leading - 8]) << shift) >> 6);
    // x' = (2 x + a / x²) / 3, with x (x - 1) for x², and 341/1024 for a third.
    let sum = 2 * guess + a / (guess * (guess - 1));
    ((sum * 341) >> 10) as u32
}

/// The largest number whose cube is at most `cube`, which is below 2³⁰.
fn integer_root(cube: u64) -> u32 {
    let mut root: u64 = 0;
    for bit in (0..10).rev() {
        let candidate = root | (1 << bit);
        if candidate.pow(3) <= cube {
            root = candidate;
        }
    }
    root as u32
}

#[cfg(test)]
mod tests {
    use super::super::cubic::CUBE_FACTOR;
    use super::*;

    /// Observed on Linux 6.1: segments below the old window when growth began, and the K (lowest
    /// and highest, 1/1024 s) that give the windows seen afterwards.
    const OBSERVED: [(u64, u32, u32); 62] = [
        (4, 2_203, 2_203),
        (5, 2_375, 2_375),
        (6, 2_523, 2_523),
        (7, 2_657, 2_657),
        (8, 2_777, 2_777),
        (9, 2_889, 2_889),
        (10, 2_991, 2_991),
        (11, 3_090, 3_090),
        (12, 3_179, 3_179),
        (13, 3_266, 3_266),
        (14, 3_347, 3_347),
        (15, 3_426, 3_426),
        (16, 3_500, 3_500),
        (17, 3_573, 3_573),
        (18, 3_640, 3_640),
        (19, 3_707, 3_707),
        (20, 3_770, 3_770),
        (21, 3_832, 3_832),
        (22, 3_892, 3_892),
        (23, 3_951, 3_951),
        (24, 4_007, 4_007),
        (25, 4_062, 4_062),
        (26, 4_115, 4_117),
        (29, 4_270, 4_271),
        (33, 4_455, 4_458),
        (36, 4_587, 4_587),
        (39, 4_714, 4_715),
        (42, 4_832, 4_832),
        (45, 4_945, 4_945),
        (49, 5_087, 5_088),
        (52, 5_185, 5_185),
        (55, 5_283, 5_284),
        (58, 5_378, 5_379),
        (61, 5_471, 5_473),
        (65, 5_583, 5_585),
        (68, 5_665, 5_677),
        (74, 5_834, 5_834),
        (81, 6_012, 6_019),
        (84, 6_083, 6_088),
        (90, 6_225, 6_228),
        (97, 6_386, 6_392),
        (100, 6_450, 6_459),
        (106, 6_575, 6_575),
        (113, 6_714, 6_718),
        (116, 6_777, 6_778),
        (122, 6_892, 6_892),
        (129, 7_020, 7_021),
        (132, 7_061, 7_077),
        (138, 7_179, 7_183),
        (145, 7_297, 7_305),
        (147, 7_328, 7_329),
        (148, 7_344, 7_351),
        (154, 7_448, 7_448),
        (161, 7_558, 7_559),
        (164, 7_605, 7_607),
        (170, 7_698, 7_701),
        (177, 7_801, 7_802),
        (180, 7_840, 7_851),
        (186, 7_929, 7_935),
        (193, 8_030, 8_032),
        (196, 8_072, 8_072),
        (202, 8_154, 8_158),
    ];

    /// Reported by Linux 7.3 for distances where a coarser measurement allowed more than one guess: distance and K.
    const TOLD: [(u64, u32); 12] = [
        (68, 5_671),
        (109, 6_636),
        (113, 6_715),
        (138, 7_180),
        (148, 7_349),
        (157, 7_495),
        (173, 7_742),
        (186, 7_931),
        (539, 11_309),
        (1_102, 14_352),
        (3_000, 20_033),
        (6_000, 25_249),
    ];

    #[test]
    fn k_is_what_a_kernel_has_told() {
        for (below, k) in TOLD {
            assert_eq!(cubic_root(CUBE_FACTOR * below), k, "{below}");
        }
    }

    #[test]
    fn k_is_that_of_a_real_kernel() {
        for (below, lowest, highest) in OBSERVED {
            let k = cubic_root(CUBE_FACTOR * below);
            assert!((lowest..=highest).contains(&k), "{below}: {k}, not {lowest} to {highest}");
        }
    }

    #[test]
    fn the_root_is_close() {
        let mut worst: f64 = 0.0;
        let mut sum = 0.0;
        let cubes: Vec<u64> = (0..2_000u32).map(|n| 1_000 + 7_919 * u64::from(n).pow(3)).collect();
        for &cube in &cubes {
            let exact = (cube as f64).cbrt();
            let error = (f64::from(cubic_root(cube)) - exact).abs() / exact;
            // Rounding may change a small root by one unit.
            worst = worst.max(error - 1.0 / exact);
            sum += error;
        }
        assert!(worst < 0.01, "{worst}");
        assert!(sum / (cubes.len() as f64) < 0.003, "{sum}");
        let small: Vec<u32> = [0, 1, 3, 4, 15, 16, 42, 43, 63].map(cubic_root).into();
        assert_eq!(small, [0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }

    /// Every number of bits up to 2⁶⁴ has leading bits that the guesses know.
    #[test]
    fn no_size_is_unknown() {
        for bits in 6..64 {
            for a in [1u64 << bits, (1 << bits) + (1 << (bits - 1)), u64::MAX >> (63 - bits)] {
                let exact = (a as f64).cbrt();
                let error = (f64::from(cubic_root(a)) - exact).abs() / exact;
                assert!(error < 0.01 + 1.0 / exact, "{a}: {error}");
            }
        }
    }
}
