//! Which connection is between two ends (`inet_hashinfo`).

use core::net::SocketAddr;
use rustc_hash::FxHashMap;

/// Both ends of a connection, the own one first.
pub(in crate::host) type Ends = (SocketAddr, SocketAddr);

/// Connections by their ends. Those of IPv4 need a quarter of the room that two addresses of either
/// family take, and there may be many hosts with one of them each.
#[derive(Debug, Default)]
pub(in crate::host) struct ConnectionTable {
    v4: FxHashMap<EndsV4, u32>,
    others: FxHashMap<Ends, u32>,
}

/// Addresses and ports of IPv4 ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct EndsV4 {
    local: u32,
    remote: u32,
    /// The own one, then the peer's.
    ports: u32,
}

impl EndsV4 {
    #[inline]
    fn of(ends: &Ends) -> Option<Self> {
        let (SocketAddr::V4(local), SocketAddr::V4(remote)) = ends else { return None };
        let ports = u32::from(local.port()) << 16 | u32::from(remote.port());
        Some(Self { local: local.ip().to_bits(), remote: remote.ip().to_bits(), ports })
    }
}

impl ConnectionTable {
    /// The connection between these ends.
    #[inline]
    pub fn get(&self, ends: &Ends) -> Option<u32> {
        match EndsV4::of(ends) {
            Some(ends) => self.v4.get(&ends).copied(),
            None => self.others.get(ends).copied(),
        }
    }

    /// From now on this one is between them.
    pub fn insert(&mut self, ends: Ends, id: u32) {
        match EndsV4::of(&ends) {
            Some(ends) => self.v4.insert(ends, id),
            None => self.others.insert(ends, id),
        };
    }

    /// From now on there is none.
    pub fn remove(&mut self, ends: &Ends) {
        match EndsV4::of(ends) {
            Some(ends) => self.v4.remove(&ends),
            None => self.others.remove(ends),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_found_by_both_ends() {
        let parsed = |text: &str| text.parse::<SocketAddr>().expect("an address and a port");
        let all = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1", "[::1]:1", "[::1]:2"].map(parsed);
        let pairs: Vec<Ends> = all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))).collect();
        let mut table = ConnectionTable::default();
        for (id, ends) in (0..).zip(&pairs) {
            assert_eq!(table.get(ends), None);
            table.insert(*ends, id);
        }
        assert!((0..).zip(&pairs).all(|(id, ends)| table.get(ends) == Some(id)));
        for (id, ends) in (0..).zip(&pairs) {
            table.remove(ends);
            let left = pairs.iter().filter(|ends| table.get(ends).is_some()).count();
            assert_eq!((table.get(ends), left), (None, pairs.len() - 1 - id));
        }
    }
}
