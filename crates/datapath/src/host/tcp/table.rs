//! Which connection is between two ends, and who listens (`inet_hashinfo`).

use crate::grow::reserve_one;
use crate::packet::{Network, Packet};
use crate::tcp::Ends;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use rustc_hash::FxHashMap;

/// Connections by their ends. Those of IPv4 need a quarter of the room that two addresses of either
/// family take, and there may be many hosts with one of them each: that one lies here itself.
#[derive(Debug, Default)]
pub(in crate::host) struct ConnectionTable {
    one: EndsV4,
    /// What is between those; [`NONE`] if nothing is.
    id: Id,
    /// Further ones of IPv4.
    v4: Option<Box<FxHashMap<EndsV4, u32>>>,
    others: Option<Box<FxHashMap<Ends, u32>>>,
}

/// The number of a connection, or [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Id(u32);

const NONE: Id = Id(u32::MAX);

impl Default for Id {
    fn default() -> Self {
        NONE
    }
}

/// Addresses and ports of IPv4 ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct EndsV4 {
    local: u32,
    remote: u32,
    /// The own one, then the peer's.
    ports: u32,
}

impl EndsV4 {
    #[inline]
    fn of(ends: &Ends) -> Option<Self> {
        let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (ends.local, ends.remote) else {
            return None;
        };
        Some(Self::new((*local.ip(), local.port()), (*remote.ip(), remote.port())))
    }

    #[inline]
    fn new((local, local_port): (Ipv4Addr, u16), (remote, remote_port): (Ipv4Addr, u16)) -> Self {
        let ports = u32::from(local_port) << 16 | u32::from(remote_port);
        Self { local: local.to_bits(), remote: remote.to_bits(), ports }
    }
}

/// Our end and the peer's of an arriving segment.
pub(in crate::host) fn ends_of(packet: &Packet) -> Option<Ends> {
    let tcp = packet.tcp()?;
    let local = SocketAddr::new(packet.network.dst()?, tcp.dst_port);
    let remote = SocketAddr::new(packet.network.src()?, tcp.src_port);
    Some(Ends { local, remote })
}

impl ConnectionTable {
    /// The connection between these ends.
    #[inline]
    pub fn get(&self, ends: &Ends) -> Option<u32> {
        match EndsV4::of(ends) {
            Some(ends) => self.get_v4(ends),
            None => self.others.as_ref()?.get(ends).copied(),
        }
    }

    #[inline]
    fn get_v4(&self, ends: EndsV4) -> Option<u32> {
        if self.one == ends && self.id != NONE {
            return Some(self.id.0);
        }
        self.v4.as_ref()?.get(&ends).copied()
    }

    /// The connection that an arriving segment is for (`__inet_lookup_established`).
    #[inline]
    pub fn of_segment(&self, packet: &Packet) -> Option<u32> {
        let tcp = packet.tcp()?;
        if let Network::Ipv4(ip) = &packet.network {
            return self.get_v4(EndsV4::new((ip.dst, tcp.dst_port), (ip.src, tcp.src_port)));
        }
        self.others.as_ref()?.get(&ends_of(packet)?).copied()
    }

    /// From now on this one is between them.
    pub fn insert(&mut self, ends: Ends, id: u32) {
        self.remove(&ends);
        match EndsV4::of(&ends) {
            Some(ends) if self.id == NONE => (self.one, self.id) = (ends, Id(id)),
            Some(ends) => _ = self.v4.get_or_insert_default().insert(ends, id),
            None => _ = self.others.get_or_insert_default().insert(ends, id),
        }
    }

    /// From now on there is none.
    pub fn remove(&mut self, ends: &Ends) {
        match EndsV4::of(ends) {
            Some(ends) if self.one == ends => self.id = NONE,
            Some(ends) => _ = self.v4.as_mut().and_then(|more| more.remove(&ends)),
            None => _ = self.others.as_mut().and_then(|more| more.remove(ends)),
        }
    }
}

/// Who listens, by port and address, in order: most hosts have one listener or none.
#[derive(Debug, Default)]
pub(in crate::host) struct Listeners(Vec<(Local, u32)>);

/// A port and an address.
type Local = (u16, IpAddr);

impl Listeners {
    fn find(&self, local: Local) -> Result<usize, usize> {
        self.0.binary_search_by_key(&local, |(there, _)| *there)
    }

    /// Who listens there.
    pub fn get(&self, local: Local) -> Option<u32> {
        self.find(local).ok().map(|place| self.0[place].1)
    }

    /// From now on this one does.
    pub fn insert(&mut self, local: Local, id: u32) {
        match self.find(local) {
            Ok(place) => self.0[place].1 = id,
            Err(place) => {
                reserve_one(&mut self.0, 1);
                self.0.insert(place, (local, id));
            }
        }
    }

    /// From now on nobody does.
    pub fn remove(&mut self, local: Local) {
        if let Ok(place) = self.find(local) {
            self.0.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_found_by_both_ends() {
        let parsed = |text: &str| text.parse::<SocketAddr>().expect("an address and a port");
        let all = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1", "[::1]:1", "[::1]:2"].map(parsed);
        let pairs: Vec<Ends> = all
            .iter()
            .flat_map(|a| all.iter().map(move |b| Ends { local: *a, remote: *b }))
            .collect();
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
            if id % 2 == 0 {
                table.insert(*ends, 99);
                table.insert(*ends, 100);
                assert_eq!(table.get(ends), Some(100));
                table.remove(ends);
                assert_eq!(table.get(ends), None);
            }
        }
    }

    #[test]
    fn ends_of_all_zeros_work_like_others() {
        let zeros = "0.0.0.0:0".parse().expect("an address and a port");
        let mut table = ConnectionTable::default();
        let ends = Ends { local: zeros, remote: zeros };
        assert_eq!(table.get(&ends), None);
        table.insert(ends, 7);
        assert_eq!(table.get(&ends), Some(7));
    }

    #[test]
    fn listeners_are_found_by_port_and_address() {
        let mut listeners = Listeners::default();
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let all = [(80, 2), (443, 1), (80, 1), (22, 3)].map(|(port, last)| (port, address(last)));
        (0..).zip(all).for_each(|(id, local)| listeners.insert(local, id));
        listeners.insert(all[2], 9);
        let found = |listeners: &Listeners| all.map(|local| listeners.get(local));
        assert_eq!(found(&listeners), [Some(0), Some(1), Some(9), Some(3)]);
        listeners.remove(all[0]);
        listeners.remove((80, address(7)));
        assert_eq!(found(&listeners), [None, Some(1), Some(9), Some(3)]);
    }
}
