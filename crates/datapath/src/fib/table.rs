//! One routing table: prefixes, each with an ordered list of routes (`struct fib_alias`).
//!
//! A list is stored once, however many prefixes have one like it: a million routes over eight next
//! hops share eight lists, which stay in the nearest cache.

use super::route::{Prefix, Route, RouteType, TableId};
use super::trie::{Bits, NONE, Trie};
use crate::grow::reserve_one;
use core::hash::BuildHasher;
use core::net::IpAddr;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// A route in a table: what is particular to it; the rest is in its shared info.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alias {
    /// Index of the shared part.
    pub info: u32,
    /// Priority; lower is first among equal `tos`.
    pub metric: u32,
    /// Type of service; 0 = any.
    pub tos: u8,
    /// What to do.
    pub kind: RouteType,
}

/// A table of one address family.
#[derive(Clone, Debug)]
pub struct Table<K> {
    /// Its number.
    pub id: TableId,
    /// Prefix → number of its list.
    pub trie: Trie<K>,
    lists: Lists,
    count: u32,
}

// A host has two, and there may be many hosts.
const _: () = assert!(size_of::<Table<u32>>() == 80);

/// Where in the list of its prefix a new alias goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertAt {
    /// Before all of the same TOS and metric.
    Before,
    /// After all of the same TOS and metric.
    After,
}

/// The aliases of one prefix: TOS descending, then metric ascending.
pub type List<'a> = core::slice::Iter<'a, Alias>;

impl<K: Bits> Table<K> {
    /// An empty table.
    pub fn new(id: TableId) -> Self {
        Self { id, trie: Trie::new(), lists: Lists::default(), count: 0 }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if a route is for one TOS only.
    pub fn has_tos(&self) -> bool {
        self.lists.many.as_ref().is_some_and(|many| many.with_tos > 0)
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.trie.memory() + self.lists.memory()
    }

    /// The aliases of the list with this number.
    #[inline]
    pub fn list(&self, number: u32) -> List<'_> {
        self.lists.get(number).iter()
    }

    /// The aliases of exactly this prefix.
    pub fn exact(&self, key: K, len: u8) -> List<'_> {
        self.trie.get(key, len).map_or([].iter(), |number| self.list(number))
    }

    /// Puts an alias among those of its prefix.
    pub fn insert(&mut self, key: K, len: u8, place: InsertAt, alias: Alias) {
        let goes_before = |there: &Alias| match there.tos.cmp(&alias.tos).reverse() {
            core::cmp::Ordering::Equal => match place {
                InsertAt::Before => there.metric >= alias.metric,
                InsertAt::After => there.metric > alias.metric,
            },
            order => order.is_gt(),
        };
        self.edit(key, len, |list| {
            let at = list.iter().position(goes_before).unwrap_or(list.len());
            list.insert(at, alias);
        });
        self.count += 1;
    }

    /// Removes the alias that `wanted` picks first, and returns it.
    pub fn remove(&mut self, key: K, len: u8, wanted: impl FnMut(&Alias) -> bool) -> Option<Alias> {
        let at = self.exact(key, len).position(wanted)?;
        let removed = self.edit(key, len, |list| list.remove(at));
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
        let at = self.exact(key, len).position(wanted)?;
        Some(self.edit(key, len, |list| {
            let changed = Alias { info, kind, ..list[at] };
            core::mem::replace(&mut list[at], changed)
        }))
    }

    /// All routes in order of prefix and then of preference.
    pub fn iter(&self) -> impl Iterator<Item = (K, u8, &Alias)> {
        self.trie
            .prefixes()
            .flat_map(|(key, len, number)| self.list(number).map(move |alias| (key, len, alias)))
    }

    /// Gives a prefix another list: the one that `act` makes of its present one.
    fn edit<R>(&mut self, key: K, len: u8, act: impl FnOnce(&mut Vec<Alias>) -> R) -> R {
        let before = self.trie.get(key, len);
        let mut list = self.lists.take_draft();
        list.extend(before.map_or([].iter(), |number| self.list(number)));
        let result = act(&mut list);
        if list.is_empty() {
            self.trie.remove(key, len);
        } else {
            let number = self.lists.obtain(&list);
            self.trie.insert(key, len, number);
        }
        self.lists.keep_draft(list);
        if let Some(before) = before {
            self.lists.release(before);
        }
        result
    }
}

/// Lists of aliases by number, equal ones stored once.
#[derive(Clone, Debug, Default)]
struct Lists {
    slots: Vec<Slot>,
    /// What many need, or some that were changed.
    many: Option<Box<ListIndex>>,
}

/// What many lists need.
#[derive(Clone, Debug, Default)]
struct ListIndex {
    free: Vec<u32>,
    /// Numbers, found by what is in the list.
    by_content: HashTable<u32>,
    /// Room for a list that is being changed.
    draft: Vec<Alias>,
    /// Lists with a route for one TOS only. It is asked for after each change, of all routes.
    with_tos: u32,
}

/// Up to so many lists take no more room than they need, and are found without an index: hosts have
/// about two in a table, and there may be many hosts.
const FEW: usize = 8;

#[derive(Clone, Debug)]
struct Slot {
    /// How many prefixes have it.
    users: u32,
    aliases: Aliases,
}

/// The aliases of a list: mostly it has one.
#[derive(Clone, Debug)]
enum Aliases {
    One(Alias),
    /// In two steps, so that a single one needs no more room.
    Several(Box<Box<[Alias]>>),
    /// None: the list is free.
    Free,
}

const _: () = assert!(size_of::<Aliases>() <= 16);

/// Equal lists have equal digests. Of a long one both ends tell enough: it is made anew with each route more, and
/// few prefixes have one.
fn digest_of(content: &[Alias]) -> u64 {
    const END: usize = 16;
    match (content.first_chunk::<END>(), content.last_chunk::<END>()) {
        (Some(first), Some(last)) if content.len() > 2 * END => {
            FxBuildHasher.hash_one((content.len(), first, last))
        }
        _ => FxBuildHasher.hash_one(content),
    }
}

/// Routes for one TOS stand before the others.
fn has_tos(content: &[Alias]) -> bool {
    content.first().is_some_and(|alias| alias.tos != 0)
}

impl Aliases {
    fn of(content: &[Alias]) -> Self {
        match content {
            [] => Self::Free,
            [only] => Self::One(*only),
            several => Self::Several(Box::new(several.into())),
        }
    }

    #[inline]
    fn all(&self) -> &[Alias] {
        match self {
            Self::One(only) => core::slice::from_ref(only),
            Self::Several(several) => several,
            Self::Free => &[],
        }
    }

    /// Bytes of memory held beside the slot.
    fn memory(&self) -> usize {
        match self {
            Self::Several(several) => size_of::<Box<[Alias]>>() + size_of_val(&***several),
            Self::One(_) | Self::Free => 0,
        }
    }
}

impl ListIndex {
    fn memory(&self) -> usize {
        size_of::<Self>()
            + self.free.capacity() * size_of::<u32>()
            + self.draft.capacity() * size_of::<Alias>()
            + self.by_content.allocation_size()
    }
}

impl Lists {
    #[inline]
    fn get(&self, number: u32) -> &[Alias] {
        self.slots[number as usize].aliases.all()
    }

    fn memory(&self) -> usize {
        let aliases: usize = self.slots.iter().map(|slot| slot.aliases.memory()).sum();
        self.slots.capacity() * size_of::<Slot>()
            + aliases
            + self.many.as_ref().map_or(0, |many| many.memory())
    }

    /// An empty list, to be filled.
    fn take_draft(&mut self) -> Vec<Alias> {
        let draft = self.many.as_mut().map(|many| core::mem::take(&mut many.draft));
        let mut draft = draft.unwrap_or_default();
        draft.clear();
        draft
    }

    /// Its room is for the next one, where there are many.
    fn keep_draft(&mut self, draft: Vec<Alias>) {
        if self.slots.len() > FEW
            && let Some(many) = &mut self.many
        {
            many.draft = draft;
        }
    }

    fn take_free(&mut self) -> Option<u32> {
        self.many.as_mut()?.free.pop()
    }

    /// What finds lists, if they are many.
    fn by_content(&self) -> Option<&HashTable<u32>> {
        let many = self.many.as_ref()?;
        (!many.by_content.is_empty()).then_some(&many.by_content)
    }

    /// One more user of the list with this content.
    fn obtain(&mut self, content: &[Alias]) -> u32 {
        let digest = digest_of(content);
        if let Some(number) = self.find(content, digest) {
            self.slots[number as usize].users += 1;
            return number;
        }
        if has_tos(content) {
            self.many.get_or_insert_default().with_tos += 1;
        }
        let slot = Slot { users: 1, aliases: Aliases::of(content) };
        let number = if let Some(number) = self.take_free() {
            self.slots[number as usize] = slot;
            number
        } else {
            assert!(self.slots.len() < NONE as usize, "2^32 different lists of routes");
            reserve_one(&mut self.slots, 1);
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        };
        self.index(number, digest);
        number
    }

    /// Few lists are searched one by one.
    fn index(&mut self, number: u32, digest: u64) {
        let Self { slots, many } = self;
        let digest_of = |number: &u32| digest_of(slots[*number as usize].aliases.all());
        if let Some(many) = many.as_mut().filter(|many| !many.by_content.is_empty()) {
            many.by_content.insert_unique(digest, number, digest_of);
        } else if slots.len() > FEW {
            let by_content = &mut many.get_or_insert_default().by_content;
            let used = (0..).zip(slots.iter()).filter(|(_, slot)| slot.users > 0);
            for (number, _) in used {
                by_content.insert_unique(digest_of(&number), number, digest_of);
            }
        }
    }

    fn find(&self, content: &[Alias], digest: u64) -> Option<u32> {
        let Some(by_content) = self.by_content() else {
            let mut used = (0..).zip(&self.slots).filter(|(_, slot)| slot.users > 0);
            return used.find(|(_, slot)| slot.aliases.all() == content).map(|(number, _)| number);
        };
        let same = |number: &u32| self.slots[*number as usize].aliases.all() == content;
        by_content.find(digest, same).copied()
    }

    /// One user less; the last one frees the list.
    fn release(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.users -= 1;
        if slot.users == 0 {
            let digest = digest_of(slot.aliases.all());
            let had_tos = has_tos(slot.aliases.all());
            slot.aliases = Aliases::Free;
            let many = self.many.get_or_insert_default();
            many.with_tos -= u32::from(had_tos);
            if let Ok(entry) = many.by_content.find_entry(digest, |there| *there == number) {
                entry.remove();
            }
            many.free.push(number);
        }
    }
}

impl Alias {
    /// The alias of a configured route.
    pub fn of(route: &Route, info: u32) -> Self {
        Self { info, metric: route.metric, tos: route.tos, kind: route.kind }
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
