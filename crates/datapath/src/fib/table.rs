//! One routing table: prefixes, each with an ordered list of routes (`struct fib_alias`).

use super::route::{Prefix, Route, RouteType, TableId};
use super::trie::{Bits, NONE, Trie};
use core::net::IpAddr;

/// A route in a table: what is particular to it; the rest is in its shared info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Index of the shared part.
    pub info: u32,
    /// Priority; lower is first among equal `tos`.
    pub metric: u32,
    /// Next alias of the same prefix, or [`NONE`].
    next: u32,
    /// Type of service; 0 = any.
    pub tos: u8,
    /// What to do.
    pub kind: RouteType,
}

/// A table of one address family.
#[derive(Debug)]
pub struct Table<K> {
    /// Its number.
    pub id: TableId,
    /// Prefix → first alias.
    pub trie: Trie<K>,
    aliases: Vec<Alias>,
    free: Vec<u32>,
    count: usize,
}

/// Where in the list of its prefix a new alias goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before all of the same TOS and metric.
    Before,
    /// After all of the same TOS and metric.
    After,
}

impl<K: Bits> Table<K> {
    /// An empty table.
    pub fn new(id: TableId) -> Self {
        Self { id, trie: Trie::new(), aliases: Vec::new(), free: Vec::new(), count: 0 }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.trie.memory() + self.aliases.capacity() * size_of::<Alias>()
    }

    /// The aliases of a list that begins at `head`.
    #[inline]
    pub fn list(&self, head: u32) -> List<'_> {
        List { aliases: &self.aliases, at: head }
    }

    /// The aliases of exactly this prefix.
    pub fn exact(&self, key: K, len: u8) -> List<'_> {
        self.list(self.trie.get(key, len).unwrap_or(NONE))
    }

    /// Puts an alias among those of its prefix: TOS descending, then metric ascending.
    pub fn insert(&mut self, key: K, len: u8, place: Place, mut alias: Alias) {
        let head = self.trie.get(key, len).unwrap_or(NONE);
        let goes_before = |there: &Alias| match there.tos.cmp(&alias.tos).reverse() {
            core::cmp::Ordering::Equal => match place {
                Place::Before => there.metric >= alias.metric,
                Place::After => there.metric > alias.metric,
            },
            order => order.is_gt(),
        };
        let (mut before, mut at) = (NONE, head);
        while at != NONE && !goes_before(&self.aliases[at as usize]) {
            (before, at) = (at, self.aliases[at as usize].next);
        }
        alias.next = at;
        let made = self.make(alias);
        if before == NONE {
            self.trie.insert(key, len, made);
        } else {
            self.aliases[before as usize].next = made;
        }
        self.count += 1;
    }

    /// Removes the alias that `wanted` picks first, and returns it.
    pub fn remove(
        &mut self,
        key: K,
        len: u8,
        mut wanted: impl FnMut(&Alias) -> bool,
    ) -> Option<Alias> {
        let (mut before, mut at) = (NONE, self.trie.get(key, len)?);
        while !wanted(&self.aliases[at as usize]) {
            (before, at) = (at, self.aliases[at as usize].next);
            if at == NONE {
                return None;
            }
        }
        let removed = self.aliases[at as usize];
        if before != NONE {
            self.aliases[before as usize].next = removed.next;
        } else if removed.next != NONE {
            self.trie.insert(key, len, removed.next);
        } else {
            self.trie.remove(key, len);
        }
        self.free.push(at);
        self.count -= 1;
        Some(removed)
    }

    /// Changes in place the alias that `wanted` picks first; returns what it was.
    pub fn change(
        &mut self,
        key: K,
        len: u8,
        wanted: impl Fn(&Alias) -> bool,
        kind: RouteType,
        info: u32,
    ) -> Option<Alias> {
        let mut at = self.trie.get(key, len)?;
        while at != NONE {
            let alias = &mut self.aliases[at as usize];
            if wanted(alias) {
                let before = *alias;
                (alias.kind, alias.info) = (kind, info);
                return Some(before);
            }
            at = alias.next;
        }
        None
    }

    /// All routes in order of prefix and then of preference.
    pub fn iter(&self) -> impl Iterator<Item = (K, u8, &Alias)> {
        self.trie
            .prefixes()
            .flat_map(|(key, len, head)| self.list(head).map(move |alias| (key, len, alias)))
    }

    fn make(&mut self, alias: Alias) -> u32 {
        if let Some(at) = self.free.pop() {
            self.aliases[at as usize] = alias;
            return at;
        }
        self.aliases.push(alias);
        self.aliases.len() as u32 - 1
    }
}

impl Alias {
    /// The alias of a configured route.
    pub fn of(route: &Route, info: u32) -> Self {
        Self { info, metric: route.metric, next: NONE, tos: route.tos, kind: route.kind }
    }
}

/// A walk along the aliases of one prefix.
#[derive(Clone, Debug)]
pub struct List<'a> {
    aliases: &'a [Alias],
    at: u32,
}

impl<'a> Iterator for List<'a> {
    type Item = &'a Alias;

    #[inline]
    fn next(&mut self) -> Option<&'a Alias> {
        if self.at == NONE {
            return None;
        }
        let alias = &self.aliases[self.at as usize];
        self.at = alias.next;
        Some(alias)
    }
}

/// Addresses of a family as bits.
pub trait Address: Bits {
    /// The bits of an address; `None` if it is of the other family.
    fn from_ip(addr: IpAddr) -> Option<Self>;
    /// The address.
    fn to_ip(self) -> IpAddr;
}

impl Address for u32 {
    fn from_ip(addr: IpAddr) -> Option<Self> {
        match addr {
            IpAddr::V4(addr) => Some(addr.to_bits()),
            IpAddr::V6(_) => None,
        }
    }

    fn to_ip(self) -> IpAddr {
        IpAddr::V4(self.into())
    }
}

impl Address for u128 {
    fn from_ip(addr: IpAddr) -> Option<Self> {
        match addr {
            IpAddr::V6(addr) => Some(addr.to_bits()),
            IpAddr::V4(_) => None,
        }
    }

    fn to_ip(self) -> IpAddr {
        IpAddr::V6(self.into())
    }
}

/// The bits and length of a prefix that is known to be of family `K`.
pub fn bits<K: Address>(prefix: &Prefix) -> (K, u8) {
    let key = K::from_ip(prefix.addr()).expect("the caller has chosen the family's table");
    (key, prefix.len())
}
