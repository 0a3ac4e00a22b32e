//! Carrying out a `tc qdisc` command on a device's tree: what it means there, and doing it.

use super::{Device, QdiscCommand, Spec, Verb};
use core::fmt;
use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::{AnyQdisc, Cx, Handle, Qdisc as _, Sched};
use datapath::rng::Rng;

/// Why a well-formed command does not fit the tree it is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// There is one already (`EEXIST`).
    Exists,
    /// There is one with another handle, and only `replace` may put a new one there (`EEXIST`).
    NeedsReplace,
    /// There is nothing that could be changed (`ENOENT`).
    NothingToChange,
    /// There is nothing but what the kernel put there itself (`ENOENT`).
    NothingToDelete,
    /// No qdisc has the handle that was given without a parent (`ENOENT`).
    NoSuchQdisc,
    /// The qdisc with this handle is elsewhere, and stays there (`EINVAL`).
    Elsewhere,
    /// What is there has another handle than the one to be deleted (`EINVAL`).
    WrongHandle,
    /// The parent class is of no qdisc of this device (`ENOENT`).
    NoSuchParent,
    /// The parent takes no inner qdisc (`ENOENT`).
    NotClassful,
    /// The parent has no such class (`ENOENT`).
    NoSuchClass,
    /// A class must be said to delete what is attached to it (`EINVAL`).
    NoClass,
    /// The class has others below it, and therefore no queue (`EINVAL`).
    InnerClass,
    /// The same, where something is to be deleted (`ENOENT`).
    NothingThere,
    /// htb's options are for ever (`EINVAL`).
    NoChange,
    /// What is there is of another kind (`EINVAL`).
    OtherKind,
    /// All handles that are given away are taken (`ENOSPC`).
    NoFreeHandle,
    /// The parent lies so deep that packets would need too much of the stack. Linux has no limit, and runs out of its own.
    TooDeep,
    /// The command is about ingress, which has no queue to change (`EOPNOTSUPP`).
    Ingress,
}

/// The effect of a command on the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandEffect {
    /// The qdisc that is there gets other settings.
    Change,
    /// A new one takes the place, whatever is there.
    Attach,
}

impl QdiscCommand {
    /// Carries the command out on the egress tree of `device`, and gives back what was replaced. What
    /// waited in it goes to `cx`, as dropped.
    ///
    /// A qdisc without a handle is one that the kernel put there itself: at the root the device's
    /// default queue. Where no handle is given the first free one from 8001: on is taken. Packets
    /// that a change leaves no room for go to `cx`.
    ///
    /// # Errors
    /// The command does not fit the tree; the tree is unchanged.
    pub fn apply(
        &self,
        root: &mut Sched,
        device: Device,
        rng: Rng,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Box<Sched>>, AttachError> {
        if self.parent == Handle::INGRESS {
            return Err(AttachError::Ingress);
        }
        let Some(spec) = self.spec.as_ref().filter(|_| self.verb != Verb::Delete) else {
            self.check_delete(root)?;
            return Ok(Some(self.delete(root, device, cx)));
        };
        let known = cx.dropped.len();
        let meaning = self.meaning(root, spec)?;
        if meaning == CommandEffect::Change && matches!(spec, Spec::Htb(_)) {
            return Err(AttachError::NoChange);
        }
        if is_inner(root, self.parent) {
            return Err(AttachError::InnerClass);
        }
        if meaning == CommandEffect::Change {
            self.change(spec, root, device, cx);
            return Ok(None);
        }
        if depth(root, owner(self.parent)) >= MAX_DEPTH {
            return Err(AttachError::TooDeep);
        }
        let handle = match self.handle {
            Handle::NONE => free_handle(root).ok_or(AttachError::NoFreeHandle)?,
            own => own,
        };
        let fresh = Sched::new(handle, spec.build(device, handle, rng));
        let old = emptied(core::mem::replace(self.place(root), fresh), cx);
        root.count_discarded(owner(self.parent), (cx.dropped.len() - known) as u64);
        Ok(Some(old))
    }

    /// The qdisc that is there takes other settings. What it discards for that, all above it count as
    /// dropped; packets of CAKE's tins that vanish the kernel does not count anywhere.
    fn change(&self, spec: &Spec, root: &mut Sched, device: Device, cx: &mut Cx<'_>) {
        let known = cx.dropped.len();
        let place = self.place(root);
        let handle = place.handle;
        let changed = spec.change(place, cx);
        assert!(changed, "a qdisc takes the settings of its kind");
        if let (Spec::Bfifo(Some(_)), AnyQdisc::Fifo(fifo)) = (spec, place.qdisc_mut()) {
            fifo.set_psched_mtu(device.psched_mtu);
        }
        let discarded = (cx.dropped.len() - known) as u64;
        if discarded > 0 && !matches!(spec, Spec::Cake(_)) {
            let parent = root.tree().into_iter().find(|(_, sched)| sched.handle == handle);
            let parent = parent.map_or(Handle::ROOT, |(parent, _)| parent);
            root.count_discarded(owner(parent), discarded);
        }
    }

    /// What `add`, `change` or `replace` means, given what is there (`tc_modify_qdisc`).
    ///
    /// A handle alone names the qdisc itself. A class without a handle names what is attached to
    /// it, if that is of the kind given; else a new one takes its place, whichever the verb.
    fn meaning(&self, root: &Sched, spec: &Spec) -> Result<CommandEffect, AttachError> {
        let there = self.there(root)?;
        let same_kind = |there: &Sched| there.qdisc().kind() == spec.kind();
        let named = match there {
            Some(there) if self.handle == there.handle => Some(there),
            Some(there) if self.handle == Handle::NONE => Some(there).filter(|it| same_kind(it)),
            Some(_) if self.verb != Verb::Replace => return Err(AttachError::NeedsReplace),
            None | Some(_) => None,
        };
        match (named, self.verb) {
            (Some(_), Verb::Add) => Err(AttachError::Exists),
            (Some(named), _) if !same_kind(named) => Err(AttachError::OtherKind),
            (Some(_), _) => Ok(CommandEffect::Change),
            (None, _) if find(root, self.handle).is_some() => Err(AttachError::Elsewhere),
            (None, Verb::Change) if there.is_none() => Err(AttachError::NothingToChange),
            (None, _) => Ok(CommandEffect::Attach),
        }
    }

    /// Whether there is what `delete` names (`tc_get_qdisc`).
    fn check_delete(&self, root: &Sched) -> Result<(), AttachError> {
        if is_inner(root, self.parent) {
            return Err(AttachError::NothingThere);
        }
        let there = self.there(root)?.ok_or(AttachError::NothingToDelete)?;
        let kind = self.spec.as_ref().map_or(there.qdisc().kind(), Spec::kind);
        if self.parent == Handle::NONE {
            Err(AttachError::NoClass)
        } else if self.handle != Handle::NONE && self.handle != there.handle {
            Err(AttachError::WrongHandle)
        } else if kind != there.qdisc().kind() {
            Err(AttachError::OtherKind)
        } else {
            Ok(())
        }
    }

    /// Takes away what is there: the device's default queue comes back, a class keeps what it has
    /// without.
    fn delete(&self, root: &mut Sched, device: Device, cx: &mut Cx<'_>) -> Box<Sched> {
        if self.parent == Handle::ROOT {
            let default = Sched::new(Handle::NONE, PfifoFast::new(device.tx_queue_len));
            return emptied(core::mem::replace(root, default), cx);
        }
        let known = cx.dropped.len();
        let old = root.detach(self.parent).expect("what is to be deleted was found");
        let old = emptied(old, cx);
        root.count_discarded(owner(self.parent), (cx.dropped.len() - known) as u64);
        old
    }

    /// The qdisc at the place that the command names, unless the kernel put it there itself.
    fn there<'a>(&self, root: &'a Sched) -> Result<Option<&'a Sched>, AttachError> {
        let there = match self.parent {
            Handle::ROOT => Some(root),
            Handle::NONE => Some(find(root, self.handle).ok_or(AttachError::NoSuchQdisc)?),
            class => {
                let owner = find(root, Handle::new(class.major(), 0));
                leaf(owner.ok_or(AttachError::NoSuchParent)?, class.minor())?
            }
        };
        Ok(there.filter(|there| there.handle != Handle::NONE))
    }

    /// The place itself, which [`Self::there`] has found to exist.
    fn place<'a>(&self, root: &'a mut Sched) -> &'a mut Sched {
        let place = match self.parent {
            Handle::ROOT => Some(root),
            Handle::NONE => root.find_mut(self.handle),
            class => root.class_mut(class),
        };
        place.expect("the place was found before")
    }
}

/// The qdisc that a class is of.
pub(super) fn owner(class: Handle) -> Handle {
    Handle::new(class.major(), 0)
}

/// How many the qdisc `handle` and those above it are.
fn depth(root: &Sched, handle: Handle) -> usize {
    let tree = root.tree();
    let find = |handle| tree.iter().find(|(_, sched)| sched.handle == handle);
    core::iter::successors(find(handle), |(class, _)| find(owner(*class))).count()
}

/// Qdiscs nest no deeper.
const MAX_DEPTH: usize = 64;

/// The qdisc with this handle, if it is one.
pub(super) fn find(root: &Sched, handle: Handle) -> Option<&Sched> {
    let mut all = root.tree().into_iter().map(|(_, sched)| sched);
    all.find(|sched| handle != Handle::NONE && sched.handle == handle)
}

/// What the class `minor` of `owner` has. Those with a single class do not look at the number.
fn leaf(owner: &Sched, minor: u16) -> Result<Option<&Sched>, AttachError> {
    match owner.qdisc() {
        AnyQdisc::Tbf(tbf) => Ok(Some(tbf.child())),
        AnyQdisc::Red(red) => Ok(Some(red.child())),
        AnyQdisc::Netem(netem) => Ok(netem.child()),
        AnyQdisc::Prio(prio) => {
            let band = usize::from(minor).checked_sub(1).and_then(|band| prio.bands().get(band));
            band.map(Some).ok_or(AttachError::NoSuchClass)
        }
        AnyQdisc::Htb(htb) => {
            let class = Handle::new(owner.handle.major(), minor);
            if htb.state(class).is_none() {
                return Err(AttachError::NoSuchClass);
            }
            Ok(htb.leaf(class))
        }
        _ => Err(AttachError::NotClassful),
    }
}

/// True if this is a class of htb that has others below it.
fn is_inner(root: &Sched, class: Handle) -> bool {
    match find(root, owner(class)).map(Sched::qdisc) {
        Some(AnyQdisc::Htb(htb)) => htb.state(class).is_some_and(|state| state.level > 0),
        _ => false,
    }
}

/// What was there before, emptied.
fn emptied(old: impl Into<Box<Sched>>, cx: &mut Cx<'_>) -> Box<Sched> {
    let mut old = old.into();
    old.purge(cx);
    old
}

/// The first unused handle from 8001: on, if there is one (`qdisc_alloc_handle`).
fn free_handle(root: &Sched) -> Option<Handle> {
    first_free(root.tree().iter().map(|(_, sched)| sched.handle.major()).collect())
}

fn first_free(mut used: Vec<u16>) -> Option<Handle> {
    used.sort_unstable();
    let free = (0x8001..=0xfffe).find(|major| used.binary_search(major).is_err());
    free.map(|major| Handle::new(major, 0))
}

/// As Linux 6.1 says it.
impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "Exclusivity flag on, cannot modify.",
            Self::NeedsReplace => "NLM_F_REPLACE needed to override.",
            Self::NothingToChange => "Qdisc not found. To create specify NLM_F_CREATE flag.",
            Self::NothingToDelete => "Cannot delete qdisc with handle of zero.",
            Self::NoSuchQdisc => "Specified qdisc not found.",
            Self::Elsewhere => "Cannot move an existing qdisc to a different parent.",
            Self::WrongHandle => "Invalid handle.",
            Self::NoSuchParent => "Failed to find specified qdisc.",
            Self::NotClassful => "Parent qdisc is not classful.",
            Self::NoSuchClass => "Specified class not found.",
            Self::NoClass => "Classid cannot be zero.",
            Self::InnerClass => "Invalid argument",
            Self::NothingThere => "Cannot find specified qdisc on specified device.",
            Self::NoChange => "Change operation not supported by specified qdisc.",
            Self::OtherKind => "Invalid qdisc name.",
            Self::TooDeep => "Qdiscs are nested too deeply.",
            Self::NoFreeHandle => "Maximum number of qdisc handles was exceeded.",
            Self::Ingress => "An ingress qdisc has no queue.",
        })
    }
}

impl std::error::Error for AttachError {}

#[cfg(test)]
mod tests;
