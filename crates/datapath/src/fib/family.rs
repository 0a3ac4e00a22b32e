//! Tables and rules of one address family.

use super::RouteKey;
use super::info::{Info, Infos};
use super::multipath::Path;
use super::route::{RouteType, TableId};
use super::rules::{Action, Rule};
use super::table::{Address, Alias, Table};

/// All of one address family.
#[derive(Debug)]
pub struct Family<K> {
    /// Tables in order of their first use.
    pub tables: Vec<Table<K>>,
    /// Rules in order of priority.
    pub rules: Vec<Rule>,
}

/// A route that answers a look-up.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The table it lies in.
    pub table: TableId,
    /// Length of its prefix.
    pub prefix_len: u8,
    /// The route's particulars.
    pub alias: &'a Alias,
    /// The shared part.
    pub info: &'a Info,
}

/// What the rules and tables say before a next hop is chosen.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'a> {
    /// A route.
    Route(Found<'a>),
    /// A rule or a route refuses.
    Refuse(RouteType),
    /// Nothing fits.
    Nothing,
}

impl<K: Address> Family<K> {
    /// No routes and the default rules.
    pub fn new(v6: bool) -> Self {
        Self { tables: Vec::new(), rules: Rule::defaults(v6) }
    }

    /// True with the default rules and without routes for one TOS only.
    pub fn is_plain(&self, v6: bool) -> bool {
        self.rules == Rule::defaults(v6)
            && self.tables.iter().all(|table| table.iter().all(|(_, _, alias)| alias.tos == 0))
    }

    /// The table with this number, if it was ever used.
    pub fn table(&self, id: TableId) -> Option<&Table<K>> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// The table with this number.
    pub fn table_mut(&mut self, id: TableId) -> &mut Table<K> {
        let index = self.tables.iter().position(|table| table.id == id).unwrap_or_else(|| {
            self.tables.push(Table::new(id));
            self.tables.len() - 1
        });
        &mut self.tables[index]
    }

    /// `fib_rules_lookup()`: the first rule that leads somewhere.
    pub fn resolve<'a>(
        &'a self,
        infos: &'a Infos,
        key: &RouteKey,
        dst: K,
        good: impl Fn(&Alias, &Info) -> bool,
    ) -> Verdict<'a> {
        let mut index = 0;
        while let Some(rule) = self.rules.get(index) {
            index += 1;
            if !rule.matches(key) {
                continue;
            }
            match rule.action {
                Action::Table(id) => {
                    let Some(table) = self.table(id) else { continue };
                    match table.resolve(infos, key, dst, &good) {
                        Verdict::Nothing | Verdict::Refuse(RouteType::Throw) => {}
                        Verdict::Route(found)
                            if rule.suppress_prefix_len.is_some_and(|l| found.prefix_len <= l) => {}
                        verdict => return verdict,
                    }
                }
                Action::Goto(priority) => {
                    // A target that does not exist is passed over (`[unresolved]`).
                    let target = self.rules.iter().position(|rule| rule.priority == priority);
                    index = target.filter(|&target| target >= index).unwrap_or(index);
                }
                Action::Nop => {}
                Action::Blackhole => return Verdict::Refuse(RouteType::Blackhole),
                Action::Unreachable => return Verdict::Refuse(RouteType::Unreachable),
                Action::Prohibit => return Verdict::Refuse(RouteType::Prohibit),
            }
        }
        Verdict::Nothing
    }
}

impl<K: Address> Table<K> {
    /// `fib_table_lookup()`: the longest prefix with a route that fits and is in service.
    #[inline]
    fn resolve<'a>(
        &'a self,
        infos: &'a Infos,
        key: &RouteKey,
        dst: K,
        good: impl Fn(&Alias, &Info) -> bool,
    ) -> Verdict<'a> {
        let mut at = self.trie.longest(dst);
        while let Some(head) = at.value() {
            for alias in self.list(head) {
                if alias.tos != 0 && alias.tos != key.tos & super::TOS_MASK {
                    continue;
                }
                if alias.kind.is_refusal() {
                    return Verdict::Refuse(alias.kind);
                }
                let info = infos.get(alias.info);
                if good(alias, info) {
                    let prefix_len = at.prefix_len().unwrap_or(0);
                    return Verdict::Route(Found { table: self.id, prefix_len, alias, info });
                }
            }
            at = at.shorter();
        }
        Verdict::Nothing
    }
}

/// The first path in service, over `oif` if that is demanded (`fib_lookup_good_nhc`).
pub fn first_path<'a>(paths: &'a [Path], key: &RouteKey) -> Option<&'a Path> {
    paths.iter().find(|path| path.usable && key.oif.is_none_or(|oif| oif == path.hop.port))
}
