//! Tables and rules of one address family.

use super::error::FibError;
use super::info::{Info, Infos};
use super::key::RouteKey;
use super::multipath::Path;
use super::route::{RouteType, TableId};
use super::rules::{Action, Rule};
use super::table::{Address, Alias, Table};
use super::trie::NONE;
use crate::grow::reserve_one;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// All of one address family.
#[derive(Clone, Debug)]
pub struct Family<K> {
    tables: Vec<Table<K>>,
    /// The rules that can lead somewhere.
    steps: Vec<Step>,
    /// Rules that are not the default ones, or many tables.
    policy: Option<Box<PolicyRouting>>,
}

/// State that few nodes need: rules of their own, and many tables.
#[derive(Clone, Debug)]
struct PolicyRouting {
    rules: Cow<'static, [Rule]>,
    /// Where in `tables` each lies; empty while they are few.
    by_id: BTreeMap<TableId, u32>,
}

/// Up to this number, tables are searched linearly.
const FEW: usize = 8;

/// The route found by a look-up.
#[derive(Clone, Copy, Debug)]
pub struct FoundRoute<'a> {
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

/// What a look-up is to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// Where the route leads, which is faster.
    Path,
    /// The length of its prefix as well.
    Prefix,
}

/// The result of rules and tables, before a next hop is chosen.
#[derive(Clone, Copy, Debug)]
pub enum LookupResult<'a> {
    /// A route.
    Route(FoundRoute<'a>),
    /// A rule or a route refuses.
    Refuse(RouteType),
    /// No route matches.
    Nothing,
}

/// A rule prepared for look-ups; updated when rules or tables change.
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
    pub fn new() -> Self {
        // No table is used: the rules lead nowhere.
        Self { tables: Vec::new(), steps: Vec::new(), policy: None }
    }

    /// True with the default rules and without routes for one TOS only.
    pub fn is_plain(&self, v6: bool) -> bool {
        *self.rules() == *Rule::defaults(v6) && !self.tables.iter().any(Table::has_tos)
    }

    /// Tables in order of their first use.
    pub fn tables(&self) -> &[Table<K>] {
        &self.tables
    }

    /// Rules in order of priority.
    pub fn rules(&self) -> &[Rule] {
        self.policy.as_ref().map_or(Rule::defaults(Self::IS_V6), |policy| &policy.rules)
    }

    const IS_V6: bool = K::WIDTH == 128;

    fn policy_mut(&mut self) -> &mut PolicyRouting {
        let rules = Cow::Borrowed(Rule::defaults(Self::IS_V6));
        self.policy.get_or_insert_with(|| Box::new(PolicyRouting { rules, by_id: BTreeMap::new() }))
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
        let rules = self.rules();
        let at = rules.partition_point(|there| there.priority <= rule.priority);
        let equals = rules[..at].partition_point(|there| there.priority < rule.priority);
        if rules[equals..at].contains(&rule) {
            return Err(FibError::Exists);
        }
        let step = self.step(at, &rule);
        self.policy_mut().rules.to_mut().insert(at, rule);
        let behind = self.steps.partition_point(|step| (step.rule as usize) < at);
        self.steps[behind..].iter_mut().for_each(|step| step.rule += 1);
        if let Some(step) = step {
            reserve_one(&mut self.steps, 1);
            self.steps.insert(behind, step);
        }
        Ok(())
    }

    /// Removes the first rule that `wanted` picks.
    pub fn delete_rule(&mut self, wanted: impl FnMut(&Rule) -> bool) -> Result<Rule, FibError> {
        let at = self.rules().iter().position(wanted).ok_or(FibError::NoSuchEntry)?;
        let rule = self.policy_mut().rules.to_mut().remove(at);
        let first = self.steps.partition_point(|step| (step.rule as usize) < at);
        if self.steps.get(first).is_some_and(|step| step.rule as usize == at) {
            self.steps.remove(first);
        }
        self.steps[first..].iter_mut().for_each(|step| step.rule -= 1);
        Ok(rule)
    }

    /// The table with this number, if it was ever used.
    pub fn table(&self, id: TableId) -> Option<&Table<K>> {
        self.place(id).map(|index| &self.tables[index as usize])
    }

    /// The table with this number.
    pub fn table_mut(&mut self, id: TableId) -> &mut Table<K> {
        let index = self.place(id).unwrap_or_else(|| self.add_table(id));
        &mut self.tables[index as usize]
    }

    fn place(&self, id: TableId) -> Option<u32> {
        match &self.policy {
            Some(policy) if !policy.by_id.is_empty() => policy.by_id.get(&id).copied(),
            _ => (0..).zip(&self.tables).find(|(_, table)| table.id == id).map(|(at, _)| at),
        }
    }

    /// A table is used for the first time: rules that name it lead somewhere from now on.
    fn add_table(&mut self, id: TableId) -> u32 {
        // Most hosts have two tables, and there may be many hosts.
        reserve_one(&mut self.tables, 1);
        let index = self.tables.len() as u32;
        self.tables.push(Table::new(id));
        if self.tables.len() > FEW {
            // Tables that existed before the limit was reached are not in the index yet.
            let listed = self.policy_mut().by_id.len();
            let new: Vec<TableId> = self.tables[listed..].iter().map(|table| table.id).collect();
            self.policy_mut().by_id.extend(new.into_iter().zip(listed as u32..));
        }
        let names_it = |(_, rule): &(usize, &Rule)| rule.action == Action::Table(id);
        let rules = self.rules().iter().enumerate().filter(names_it);
        let new: Vec<Step> = rules.filter_map(|(at, rule)| self.step(at, rule)).collect();
        for step in new {
            let behind = self.steps.partition_point(|there| there.rule < step.rule);
            reserve_one(&mut self.steps, 1);
            self.steps.insert(behind, step);
        }
        index
    }

    /// How the rule at this place is carried out, if it can lead somewhere.
    fn step(&self, at: usize, rule: &Rule) -> Option<Step> {
        let table = match rule.action {
            Action::Table(id) => Some(self.place(id)?),
            Action::Nop => return None,
            _ => None,
        };
        Some(Step { rule: at as u32, always: rule.is_for_all(), table })
    }

    /// `fib_rules_lookup()`: the first rule that leads somewhere. With
    /// [`Query::Prefix`] the answer knows the length of its prefix. `suppressed` decides whether a rule ignores
    /// the route that it found.
    #[inline]
    pub fn resolve<'a>(
        &'a self,
        infos: &'a Infos,
        key: &RouteKey,
        dst: K,
        want: Query,
        good: impl Fn(&Alias, &Info) -> bool,
        suppressed: impl Fn(&Rule, &FoundRoute<'_>) -> bool,
    ) -> LookupResult<'a> {
        let (rules, mut index) = (self.rules(), 0);
        while let Some(step) = self.steps.get(index) {
            let rule = &rules[step.rule as usize];
            index += 1;
            if !step.always && !rule.matches(key) {
                continue;
            }
            match rule.action {
                Action::Table(_) => {
                    let Some(table) = step.table else { continue };
                    let table = &self.tables[table as usize];
                    let may_suppress = rule.may_suppress();
                    let want = if may_suppress { Query::Prefix } else { want };
                    match table.resolve(infos, key, dst, want, &good) {
                        LookupResult::Nothing | LookupResult::Refuse(RouteType::Throw) => {}
                        LookupResult::Route(found) if may_suppress && suppressed(rule, &found) => {}
                        LookupResult::Route(found) => {
                            return LookupResult::Route(FoundRoute { rule: step.rule, ..found });
                        }
                        verdict @ LookupResult::Refuse(_) => return verdict,
                    }
                }
                Action::Goto(priority) => {
                    // A `goto` whose target does not exist is skipped (`[unresolved]`).
                    let target = rules.partition_point(|rule| rule.priority < priority);
                    let exists = rules.get(target).is_some_and(|it| it.priority == priority);
                    if exists && target > step.rule as usize {
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

    /// The route to a gateway of a route of `table`.
    pub fn gateway<'a>(
        &'a self,
        infos: &'a Infos,
        key: &RouteKey,
        dst: K,
        table: Option<TableId>,
        good: impl Fn(&Alias, &Info) -> bool,
    ) -> LookupResult<'a> {
        let table = table.and_then(|table| self.table(table));
        let first = table.map(|it| it.resolve(infos, key, dst, Query::Prefix, &good));
        match first {
            Some(LookupResult::Route(found)) => LookupResult::Route(found),
            _ => self.resolve(infos, key, dst, Query::Prefix, good, |_, _| false),
        }
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
        want: Query,
        good: impl Fn(&Alias, &Info) -> bool,
    ) -> LookupResult<'a> {
        if want == Query::Path
            && let Some(list) = self.trie.quick(dst)
        {
            if list == NONE {
                return LookupResult::Nothing;
            }
            if let PrefixResult::Verdict(verdict) = self.pick(infos, key, list, 0, &good) {
                return verdict;
            }
        }
        let mut at = self.trie.longest(dst);
        while let Some(list) = at.value() {
            let prefix_len = at.prefix_len().unwrap_or(0);
            match self.pick(infos, key, list, prefix_len, &good) {
                PrefixResult::Verdict(verdict) => return verdict,
                PrefixResult::Nothing => at = at.shorter(),
                PrefixResult::Miss => {
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
    ) -> PrefixResult<'a> {
        for alias in self.list(list) {
            if alias.tos != 0 && alias.tos != key.tos & super::TOS_MASK {
                continue;
            }
            if alias.kind.is_refusal() {
                return PrefixResult::Verdict(LookupResult::Refuse(alias.kind));
            }
            let info = infos.get(alias.info);
            if good(alias, info) {
                let found = FoundRoute { table: self.id, prefix_len, alias, info, rule: 0 };
                return PrefixResult::Verdict(LookupResult::Route(found));
            }
            if !info.shared.v6 && info.object().is_some() {
                return PrefixResult::Miss;
            }
        }
        PrefixResult::Nothing
    }
}

/// The result of the routes of a prefix.
enum PrefixResult<'a> {
    Verdict(LookupResult<'a>),
    /// None is usable: the next shorter prefix is tried.
    Nothing,
    /// An IPv4 object has no usable next hop. Then neither other routes of the prefix are tried nor those
    /// of shorter prefixes that begin at the same address, because they lie in one leaf of the kernel's trie
    /// (`goto miss` in `fib_table_lookup`).
    Miss,
}

/// The first path in service, over the port that is demanded (`fib_lookup_good_nhc`).
pub fn first_path(paths: &[Path], port: Option<u16>) -> Option<&Path> {
    paths.iter().find(|path| path.usable && port.is_none_or(|port| port == path.hop.port))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recomputes all steps.
    fn steps(family: &Family<u32>) -> Vec<(u32, bool, Option<u32>)> {
        let step = |(at, rule): (usize, &Rule)| {
            let place = |id: TableId| family.tables.iter().position(|table| table.id == id);
            let table = match rule.action {
                Action::Table(id) => Some(place(id)? as u32),
                Action::Nop => return None,
                _ => None,
            };
            Some((at as u32, rule.is_for_all(), table))
        };
        family.rules().iter().enumerate().filter_map(step).collect()
    }

    proptest::proptest! {
        #[test]
        fn steps_follow_rules_and_tables(
            changes in proptest::collection::vec((0..4u8, 0..40u32, 0..30u32), 0..120)
        ) {
            let mut family = Family::<u32>::new();
            for (what, priority, number) in changes {
                let action = match number % 5 {
                    0 => Action::Nop,
                    1 => Action::Goto(priority + 1),
                    2 => Action::Blackhole,
                    _ => Action::Table(TableId(number)),
                };
                match what {
                    0 => drop(family.table_mut(TableId(number))),
                    1 => drop(family.delete_rule(|rule| rule.priority >= priority)),
                    _ => {
                        let rule = Rule { tos: (number / 20) as u8, ..Rule::all(priority, action) };
                        let there = family.rules().contains(&rule);
                        proptest::prop_assert_eq!(family.add_rule(rule).is_err(), there);
                    }
                }
                proptest::prop_assert!(family.rules().is_sorted_by_key(|rule| rule.priority));
                let kept = family.steps.iter().map(|it| (it.rule, it.always, it.table));
                proptest::prop_assert_eq!(kept.collect::<Vec<_>>(), steps(&family));
                for id in 0..30 {
                    let found = family.table(TableId(id)).map(|table| table.id.0);
                    let there = family.tables.iter().any(|table| table.id.0 == id);
                    proptest::prop_assert_eq!(found, there.then_some(id));
                }
            }
        }
    }
}
