//! Cookies of Fast Open, and the keys that make them.

use crate::packet::option_kind as kind;
use crate::packet::options::FAST_OPEN_MAGIC;
use core::hash::Hasher as _;
use core::net::IpAddr;
use siphasher::sip::SipHasher24;

/// A cookie, or with length 0 the request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cookie {
    bytes: [u8; 16],
    len: u8,
    /// In the experimental option 254 rather than 34.
    pub experimental: bool,
}

/// The keys of cookies: the one in use, and an older one that is still honoured
/// (`tcp_fastopen_context`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// In use.
    pub primary: [u8; 16],
    /// Still honoured.
    pub backup: Option<[u8; 16]>,
}

impl Cookie {
    /// A cookie of these bytes; `None` if a cookie cannot be so long.
    pub fn new(bytes: &[u8], experimental: bool) -> Option<Self> {
        let mut cookie = Self { len: bytes.len() as u8, experimental, ..Self::default() };
        cookie.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(cookie)
    }

    /// The request for a cookie.
    pub(super) fn request(experimental: bool) -> Self {
        Self { experimental, ..Self::default() }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// It asks for a cookie.
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }

    /// The same in the other or the same form.
    pub(super) fn in_form_of(self, other: Self) -> Self {
        Self { experimental: other.experimental, ..self }
    }

    /// The option as it goes on the wire, padded to whole words: length first, then bytes.
    pub(super) fn write(&self, out: &mut [u8; 20]) -> usize {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if self.experimental {
            let [high, low] = FAST_OPEN_MAGIC.to_be_bytes();
            put(&[kind::EXPERIMENTAL, 4 + self.len, high, low]);
        } else {
            put(&[kind::FAST_OPEN, 2 + self.len]);
        }
        put(self.bytes());
        let padded = at.next_multiple_of(4);
        out[at..padded].fill(kind::NOP);
        padded
    }
}

impl Keys {
    /// Reads the text of `net.ipv4.tcp_fastopen_key`: `xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx`, and
    /// perhaps a comma and a second one. `None` if it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut keys = text.trim().split(',').map(parse_key);
        let primary = keys.next()??;
        let backup = match keys.next() {
            Some(key) => Some(key?),
            None => None,
        };
        keys.next().is_none().then_some(Self { primary, backup })
    }

    /// Reads the 16 or 32 bytes of `TCP_FASTOPEN_KEY`.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (keys, rest) = bytes.as_chunks::<16>();
        match (keys, rest) {
            (&[primary], []) => Some(Self { primary, backup: None }),
            (&[primary, backup], []) => Some(Self { primary, backup: Some(backup) }),
            _ => None,
        }
    }

    /// The bytes that `TCP_FASTOPEN_KEY` gives back.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.primary.to_vec();
        bytes.extend(self.backup.iter().flatten());
        bytes
    }

    /// The cookie of a client (`__tcp_fastopen_cookie_gen_cipher`).
    fn cookie(key: [u8; 16], client: IpAddr, server: IpAddr) -> Cookie {
        let mut hasher = SipHasher24::new_with_key(&key);
        for ip in [client, server] {
            match ip {
                IpAddr::V4(ip) => hasher.write(&ip.octets()),
                IpAddr::V6(ip) => hasher.write(&ip.octets()),
            }
        }
        Cookie::new(&hasher.finish().to_le_bytes(), false).expect("eight bytes")
    }

    /// The cookie to hand out.
    pub fn fresh(&self, client: IpAddr, server: IpAddr) -> Cookie {
        Self::cookie(self.primary, client, server)
    }

    /// Whether `cookie` is right: `Some(true)` if by the older key.
    pub(super) fn check(&self, cookie: Cookie, client: IpAddr, server: IpAddr) -> Option<bool> {
        if Self::cookie(self.primary, client, server).bytes() == cookie.bytes() {
            return Some(false);
        }
        let backup = self.backup?;
        (Self::cookie(backup, client, server).bytes() == cookie.bytes()).then_some(true)
    }
}

impl Default for Keys {
    /// A key of our own: fixed, because a run must repeat.
    fn default() -> Self {
        Self { primary: *b"ackwright's key!", backup: None }
    }
}

fn parse_key(text: &str) -> Option<[u8; 16]> {
    let mut words = text.trim().split('-');
    let mut key = [0; 16];
    for place in key.as_chunks_mut::<4>().0 {
        let word = words.next().filter(|word| !word.is_empty() && word.len() <= 8)?;
        *place = u32::from_str_radix(word, 16).ok()?.to_le_bytes();
    }
    words.next().is_none().then_some(key)
}
