//! Tables and rules of one address family.

use super::error::FibError;
use super::info::{Info, Infos};
use super::key::RouteKey;
use super::multipath::Path;
use super::route::{RouteType, TableId};
use super::rules::{Action, Rule};
use super::table::{Address, Alias, Table};
use super::trie::NONE;
use std::borrow::Cow;

/// All of one address family.
#[derive(Clone, Debug)]
pub struct Family<K> {
    tables: Vec<Table<K>>,
    rules: Cow<'static, [Rule]>,
    /// The rules that can lead somewhere.
    steps: Box<[Step]>,
}

/// A route that answers a look-up.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The table it lies in.
    pub table: TableId,
    /// Length of its prefix; 0 unless the length was wanted.
    pub prefix_len: u8,
    /// Index of the rule that led there.
    pub rule: u32,
    /// The route's particulars.
    pub alias: &'a Alias,
    /// The shared part.
    pub info: &'a Info,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Where the route leads, which is found quicker.
    Path,
    /// The length of its prefix as well.
    Prefix,
}

/// What the rules and tables say before a next hop is chosen.
#[derive(Clone, Copy, Debug)]
pub enum LookupResult<'a> {
    /// A route.
    Route(Found<'a>),
    /// A rule or a route refuses.
    Refuse(RouteType),
    /// Nothing fits.
    Nothing,
}

/// How a rule is carried out, found out when rules or tables change.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Index of the rule.
    rule: u32,
    /// The rule is for every packet.
    always: bool,
    /// Index of the table that it leads to, if that was ever used.
    table: Option<u32>,
}

impl<K: Address> Family<K> {
    /// No routes and the default rules.
    pub fn new(v6: bool) -> Self {
        let mut family = Self {
            tables: Vec::new(),
            rules: Cow::Borrowed(Rule::defaults(v6)),
            steps: Box::default(),
        };
        family.prepare();
        family
    }

    /// True with the default rules and without routes for one TOS only.
    pub fn is_plain(&self, v6: bool) -> bool {
        *self.rules == *Rule::defaults(v6)
            && self.tables.iter().all(|table| table.iter().all(|(_, _, alias)| alias.tos == 0))
    }

    /// Tables in order of their first use.
    pub fn tables(&self) -> &[Table<K>] {
        &self.tables
    }

    /// Rules in order of priority.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.tables.iter().map(Table::memory).sum()
    }

    /// Adds a rule after those of the same priority.
    pub fn add_rule(&mut self, rule: Rule) -> Result<(), FibError> {
        if self.rules.contains(&rule) {
            return Err(FibError::Exists);
        }
        let at = self.rules.partition_point(|there| there.priority <= rule.priority);
        self.rules.to_mut().insert(at, rule);
        self.prepare();
        Ok(())
    }

    /// Removes the first rule that `wanted` picks.
    pub fn delete_rule(&mut self, wanted: impl FnMut(&Rule) -> bool) -> Result<Rule, FibError> {
        let at = self.rules.iter().position(wanted).ok_or(FibError::NoSuchEntry)?;
        let rule = self.rules.to_mut().remove(at);
        self.prepare();
        Ok(rule)
    }

    /// The table with this number, if it was ever used.
    pub fn table(&self, id: TableId) -> Option<&Table<K>> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// The table with this number.
    pub fn table_mut(&mut self, id: TableId) -> &mut Table<K> {
        let index = self.tables.iter().position(|table| table.id == id).unwrap_or_else(|| {
            // Hosts have two, and there may be many hosts.
            self.tables.reserve_exact(1);
            self.tables.push(Table::new(id));
            self.prepare();
            self.tables.len() - 1
        });
        &mut self.tables[index]
    }

    fn prepare(&mut self) {
        let table = |rule: &Rule| match rule.action {
            Action::Table(id) => self.tables.iter().position(|table| table.id == id),
            _ => None,
        };
        let step = |(index, rule): (usize, &Rule)| Step {
            rule: index as u32,
            always: rule.is_for_all(),
            table: table(rule).map(|index| index as u32),
        };
        let leads = |step: &Step| match self.rules[step.rule as usize].action {
            Action::Table(_) => step.table.is_some(),
            Action::Nop => false,
            _ => true,
        };
        self.steps = self.rules.iter().enumerate().map(step).filter(leads).collect();
    }

    /// `fib_rules_lookup()`: the first rule that leads somewhere. With
    /// [`Want::Prefix`] the answer knows the length of its prefix.
    #[inline]
    pub fn resolve<'a>(
        &'a self,
        infos: &'a Infos,
        key: &RouteKey,
        dst: K,
        want: Want,
        good: impl Fn(&Alias, &Info) -> bool,
    ) -> LookupResult<'a> {
        let mut index = 0;
        while let Some(step) = self.steps.get(index) {
            let rule = &self.rules[step.rule as usize];
            index += 1;
            if !step.always && !rule.matches(key) {
                continue;
            }
            match rule.action {
                Action::Table(_) => {
                    let Some(table) = step.table else { continue };
                    let table = &self.tables[table as usize];
                    let want = if rule.suppress_prefix_len.is_some() { Want::Prefix } else { want };
                    match table.resolve(infos, key, dst, want, &good) {
                        LookupResult::Nothing | LookupResult::Refuse(RouteType::Throw) => {}
                        LookupResult::Route(found)
                            if rule.suppress_prefix_len.is_some_and(|l| found.prefix_len <= l) => {}
                        LookupResult::Route(found) => {
                            return LookupResult::Route(Found { rule: step.rule, ..found });
                        }
                        verdict @ LookupResult::Refuse(_) => return verdict,
                    }
                }
                Action::Goto(priority) => {
                    // A target that does not exist is passed over (`[unresolved]`).
                    let target = self.rules.iter().position(|rule| rule.priority == priority);
                    if let Some(target) = target.filter(|&target| target > step.rule as usize) {
                        index = self.steps.partition_point(|step| (step.rule as usize) < target);
                    }
                }
                Action::Nop => {}
                Action::Blackhole => return LookupResult::Refuse(RouteType::Blackhole),
                // `ENETUNREACH`, where a route says `EHOSTUNREACH` (`fib4_rule_action`, `fib6_rule_action`).
                Action::Unreachable => return LookupResult::Nothing,
                Action::Prohibit => return LookupResult::Refuse(RouteType::Prohibit),
            }
        }
        LookupResult::Nothing
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
        want: Want,
        good: impl Fn(&Alias, &Info) -> bool,
    ) -> LookupResult<'a> {
        if want == Want::Path
            && let Some(list) = self.trie.quick(dst)
        {
            if list == NONE {
                return LookupResult::Nothing;
            }
            if let Pick::Verdict(verdict) = self.pick(infos, key, list, 0, &good) {
                return verdict;
            }
        }
        let mut at = self.trie.longest(dst);
        while let Some(list) = at.value() {
            let prefix_len = at.prefix_len().unwrap_or(0);
            match self.pick(infos, key, list, prefix_len, &good) {
                Pick::Verdict(verdict) => return verdict,
                Pick::Nothing => at = at.shorter(),
                Pick::Miss => {
                    let leaf = dst.masked(prefix_len);
                    at = at.shorter();
                    while at.prefix_len().is_some_and(|len| dst.masked(len) == leaf) {
                        at = at.shorter();
                    }
                }
            }
        }
        LookupResult::Nothing
    }

    /// The first route of a prefix that fits and is in service.
    #[inline]
    fn pick<'a>(
        &'a self,
        infos: &'a Infos,
        key: &RouteKey,
        list: u32,
        prefix_len: u8,
        good: impl Fn(&Alias, &Info) -> bool,
    ) -> Pick<'a> {
        for alias in self.list(list) {
            if alias.tos != 0 && alias.tos != key.tos & super::TOS_MASK {
                continue;
            }
            if alias.kind.is_refusal() {
                return Pick::Verdict(LookupResult::Refuse(alias.kind));
            }
            let info = infos.get(alias.info);
            if good(alias, info) {
                let found = Found { table: self.id, prefix_len, alias, info, rule: 0 };
                return Pick::Verdict(LookupResult::Route(found));
            }
            if !info.shared.v6 && info.object().is_some() {
                return Pick::Miss;
            }
        }
        Pick::Nothing
    }
}

/// What the routes of a prefix say.
enum Pick<'a> {
    Verdict(LookupResult<'a>),
    /// None of them serves: the next shorter prefix is asked.
    Nothing,
    /// An IPv4 object has no next hop that serves. Neither other routes of the prefix are asked then nor those
    /// of shorter prefixes that begin at the same address, as they lie in one leaf of the kernel's trie
    /// (`goto miss` in `fib_table_lookup`).
    Miss,
}

/// The first path in service, over the port that is demanded (`fib_lookup_good_nhc`).
pub fn first_path(paths: &[Path], port: Option<u16>) -> Option<&Path> {
    paths.iter().find(|path| path.usable && port.is_none_or(|port| port == path.hop.port))
}
