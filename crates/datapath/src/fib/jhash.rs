//! Bob Jenkins' `lookup3` (2006, public domain), in the shapes that Linux calls `jhash_*`.

/// `JHASH_INITVAL`: an arbitrary constant of the kernel's.
const INITVAL: u32 = 0xdead_beef;

/// `jhash_1word` and friends: up to three words and a seed.
pub fn words3(a: u32, b: u32, c: u32, seed: u32) -> u32 {
    nwords(a, b, c, seed.wrapping_add(INITVAL).wrapping_add(3 << 2))
}

/// `jhash_2words`.
pub fn words2(a: u32, b: u32, seed: u32) -> u32 {
    nwords(a, b, 0, seed.wrapping_add(INITVAL).wrapping_add(2 << 2))
}

/// `jhash2`: any number of words.
pub fn words(key: &[u32], seed: u32) -> u32 {
    let start = INITVAL.wrapping_add((key.len() as u32) << 2).wrapping_add(seed);
    let [mut a, mut b, mut c] = [start; 3];
    let mut rest = key;
    while rest.len() > 3 {
        a = a.wrapping_add(rest[0]);
        b = b.wrapping_add(rest[1]);
        c = c.wrapping_add(rest[2]);
        [a, b, c] = mix(a, b, c);
        rest = &rest[3..];
    }
    let word = |index: usize| rest.get(index).copied().unwrap_or(0);
    if rest.is_empty() {
        return c;
    }
    last(a.wrapping_add(word(0)), b.wrapping_add(word(1)), c.wrapping_add(word(2)))
}

fn nwords(a: u32, b: u32, c: u32, start: u32) -> u32 {
    last(a.wrapping_add(start), b.wrapping_add(start), c.wrapping_add(start))
}

/// The reversible mix of three words.
fn mix(mut a: u32, mut b: u32, mut c: u32) -> [u32; 3] {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    [a, b, c]
}

/// The final, irreversible mix.
fn last(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published results of lookup3's own self-test (`hashword` and `hashlittle` agree on whole
    /// words): the empty key gives the initial value.
    #[test]
    fn known_values() {
        assert_eq!(words(&[], 0), 0xdead_beef);
        assert_eq!(words(&[], 0xdead_beef), 0xbd5b_7dde);
    }

    #[test]
    fn shapes_agree() {
        for seed in [0, 1, 0xdead_beef, u32::MAX] {
            assert_eq!(words2(3, 5, seed), words(&[3, 5], seed));
            assert_eq!(words3(3, 5, 7, seed), words(&[3, 5, 7], seed));
        }
    }
}
