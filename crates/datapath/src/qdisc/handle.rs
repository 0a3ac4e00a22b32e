//! Handles and class ids: `major:minor`, each 16 bits (`TC_H_MAJ`, `TC_H_MIN`).

use core::fmt;

/// A qdisc's handle (minor 0) or a class id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Handle(pub u32);

impl Handle {
    /// No handle given (`TC_H_UNSPEC`).
    pub const NONE: Self = Self(0);
    /// The parent of the outermost qdisc (`TC_H_ROOT`).
    pub const ROOT: Self = Self(0xffff_ffff);
    /// The parent of an ingress qdisc (`TC_H_INGRESS`).
    pub const INGRESS: Self = Self(0xffff_fff1);

    /// `major:minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// The upper half.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The lower half.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }

    /// True if `class` is a class of the qdisc with this handle.
    pub const fn owns(self, class: Self) -> bool {
        self.major() != 0 && self.major() == class.major()
    }
}

/// As tc prints it: hexadecimal, `1:` for a qdisc, `1:2` for a class.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.minor()) {
            (Self::ROOT, _) => write!(f, "root"),
            (_, 0) => write!(f, "{:x}:", self.major()),
            (_, minor) => write!(f, "{:x}:{minor:x}", self.major()),
        }
    }
}
