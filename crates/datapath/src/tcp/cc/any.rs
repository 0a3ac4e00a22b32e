//! The modules there are: by name, and behind one type.

use super::{
    Ack, AckEventFlags, AckSample, Bbr, Bbr3, Bic, CcInfo, Cdg, CongestionControl, Cubic,
    CwndEvent, Dctcp, Guest, HighSpeed, Htcp, Hybla, Illinois, LostPacket, LowPriority, Nv, Prague,
    RateSample, Reno, Scalable, Vegas, Veno, Westwood, Window, Yeah, dctcp, guest,
};
use crate::packet::seq::Seq;
use crate::tcp::TcpConfig;
use crate::trace::CaState;

/// Which module to use (`TCP_CONGESTION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// RFC 5681 as Linux does it.
    Reno,
    /// RFC 9438 as Linux does it.
    #[default]
    Cubic,
    /// RFC 8257 as Linux does it.
    Dctcp,
    /// BBR version 1 as Linux does it.
    Bbr,
    /// BBR version 3 by draft-ietf-ccwg-bbr.
    Bbr3,
    /// BIC, before CUBIC.
    Bic,
    /// RFC 3649.
    HighSpeed,
    /// Scalable TCP.
    Scalable,
    /// TCP Vegas.
    Vegas,
    /// TCP Veno.
    Veno,
    /// CAIA delay-gradient.
    Cdg,
    /// H-TCP.
    Htcp,
    /// TCP Hybla.
    Hybla,
    /// TCP-Illinois.
    Illinois,
    /// TCP-LP.
    LowPriority,
    /// TCP-NV.
    Nv,
    /// Prague by draft-briscoe-iccrg-prague-congestion-control.
    Prague,
    /// TCP Westwood+.
    Westwood,
    /// YeAH-TCP.
    Yeah,
    /// A library user's own.
    Guest(Guest),
}

impl Algorithm {
    /// Every algorithm of the product, as `tcp_available_congestion_control` lists them.
    pub const ALL: [Self; 19] = [
        Self::Reno,
        Self::Cubic,
        Self::Dctcp,
        Self::Bbr,
        Self::Bbr3,
        Self::Bic,
        Self::HighSpeed,
        Self::Scalable,
        Self::Vegas,
        Self::Veno,
        Self::Cdg,
        Self::Htcp,
        Self::Hybla,
        Self::Illinois,
        Self::LowPriority,
        Self::Nv,
        Self::Prague,
        Self::Westwood,
        Self::Yeah,
    ];

    /// The kernel's name, or the user's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Dctcp => "dctcp",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
            Self::Bic => "bic",
            Self::HighSpeed => "highspeed",
            Self::Scalable => "scalable",
            Self::Vegas => "vegas",
            Self::Veno => "veno",
            Self::Cdg => "cdg",
            Self::Htcp => "htcp",
            Self::Hybla => "hybla",
            Self::Illinois => "illinois",
            Self::LowPriority => "lp",
            Self::Nv => "nv",
            Self::Prague => "prague",
            Self::Westwood => "westwood",
            Self::Yeah => "yeah",
            Self::Guest(guest) => guest.name(),
        }
    }

    /// It needs ECN (`TCP_CONG_NEEDS_ECN`).
    pub fn needs_ecn(self) -> bool {
        match self {
            Self::Dctcp => true,
            Self::Guest(guest) => guest.needs_ecn(),
            Self::Reno
            | Self::Cubic
            | Self::Bbr
            | Self::Bbr3
            | Self::Bic
            | Self::HighSpeed
            | Self::Scalable
            | Self::Vegas
            | Self::Veno
            | Self::Cdg
            | Self::Htcp
            | Self::Hybla
            | Self::Illinois
            | Self::LowPriority
            | Self::Nv
            | Self::Prague
            | Self::Westwood
            | Self::Yeah => false,
        }
    }

    /// The algorithm of the product with that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// The module of a connection, dispatched by name.
pub enum AnyCongestionControl {
    /// Reno.
    Reno(Reno),
    /// CUBIC.
    Cubic(Cubic),
    /// DCTCP.
    Dctcp(Dctcp),
    /// DCTCP on a connection without ECN: Reno by another name.
    DctcpReno(Reno),
    /// BBR version 1.
    Bbr(Box<Bbr>),
    /// BBR version 3.
    Bbr3(Box<Bbr3>),
    /// BIC.
    Bic(Bic),
    /// HighSpeed TCP.
    HighSpeed(HighSpeed),
    /// Scalable TCP.
    Scalable(Scalable),
    /// Vegas.
    Vegas(Vegas),
    /// Veno.
    Veno(Veno),
    /// CAIA delay-gradient.
    Cdg(Box<Cdg>),
    /// H-TCP.
    Htcp(Htcp),
    /// TCP Hybla.
    Hybla(Hybla),
    /// TCP-Illinois.
    Illinois(Illinois),
    /// TCP-LP.
    LowPriority(LowPriority),
    /// TCP-NV.
    Nv(Nv),
    /// Prague.
    Prague(Box<Prague>),
    /// Prague on a connection without Accurate ECN: Reno by another name.
    PragueReno(Reno),
    /// TCP Westwood+.
    Westwood(Westwood),
    /// YeAH-TCP.
    Yeah(Yeah),
    /// A library user's own.
    Guest(Guest, guest::BoxedModule),
    /// For tests: records the calls that a module gets.
    #[cfg(test)]
    Test(Box<super::rate_based::RateBased>),
}

macro_rules! dispatch {
    ($self:ident, $module:ident => $body:expr) => {
        match $self {
            Self::Reno($module) => $body,
            Self::Cubic($module) => $body,
            Self::Dctcp($module) => $body,
            Self::DctcpReno($module) => $body,
            Self::Bbr($module) => $body,
            Self::Bbr3($module) => $body,
            Self::Bic($module) => $body,
            Self::HighSpeed($module) => $body,
            Self::Scalable($module) => $body,
            Self::Vegas($module) => $body,
            Self::Veno($module) => $body,
            Self::Cdg($module) => $body,
            Self::Htcp($module) => $body,
            Self::Hybla($module) => $body,
            Self::Illinois($module) => $body,
            Self::LowPriority($module) => $body,
            Self::Nv($module) => $body,
            Self::Prague($module) => $body,
            Self::PragueReno($module) => $body,
            Self::Westwood($module) => $body,
            Self::Yeah($module) => $body,
            Self::Guest(_, $module) => $body,
            #[cfg(test)]
            Self::Test($module) => $body,
        }
    };
}

impl AnyCongestionControl {
    /// A fresh module for a connection of this configuration.
    pub fn new(config: &TcpConfig) -> Self {
        match config.congestion_control {
            Algorithm::Reno => Self::Reno(Reno),
            Algorithm::Cubic => {
                let profile = &config.profile;
                Self::Cubic(Cubic::new(profile.hystart, profile.cubic_beta))
            }
            Algorithm::Dctcp => Self::Dctcp(Dctcp::new(config.dctcp)),
            Algorithm::Bbr => Self::Bbr(Box::new(Bbr::new(config.bbr))),
            Algorithm::Bbr3 => Self::Bbr3(Box::default()),
            Algorithm::Bic => Self::Bic(Bic::default()),
            Algorithm::HighSpeed => Self::HighSpeed(HighSpeed::default()),
            Algorithm::Scalable => Self::Scalable(Scalable),
            Algorithm::Vegas => Self::Vegas(Vegas::default()),
            Algorithm::Veno => Self::Veno(Veno::default()),
            Algorithm::Cdg => Self::Cdg(Box::new(Cdg::new(config.cdg))),
            Algorithm::Htcp => Self::Htcp(Htcp::default()),
            Algorithm::Hybla => Self::Hybla(Hybla::default()),
            Algorithm::Illinois => Self::Illinois(Illinois::default()),
            Algorithm::LowPriority => Self::LowPriority(LowPriority::default()),
            Algorithm::Nv => Self::Nv(Nv::new(config.nv)),
            Algorithm::Prague => Self::Prague(Box::default()),
            Algorithm::Westwood => Self::Westwood(Westwood::default()),
            Algorithm::Yeah => Self::Yeah(Yeah::default()),
            Algorithm::Guest(guest) => Self::Guest(guest, guest.make()),
        }
    }

    /// Which one was asked for.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Reno(_) => Algorithm::Reno,
            Self::Cubic(_) => Algorithm::Cubic,
            Self::Dctcp(_) | Self::DctcpReno(_) => Algorithm::Dctcp,
            Self::Bbr(_) => Algorithm::Bbr,
            Self::Bbr3(_) => Algorithm::Bbr3,
            Self::Bic(_) => Algorithm::Bic,
            Self::HighSpeed(_) => Algorithm::HighSpeed,
            Self::Scalable(_) => Algorithm::Scalable,
            Self::Vegas(_) => Algorithm::Vegas,
            Self::Veno(_) => Algorithm::Veno,
            Self::Cdg(_) => Algorithm::Cdg,
            Self::Htcp(_) => Algorithm::Htcp,
            Self::Hybla(_) => Algorithm::Hybla,
            Self::Illinois(_) => Algorithm::Illinois,
            Self::LowPriority(_) => Algorithm::LowPriority,
            Self::Nv(_) => Algorithm::Nv,
            Self::Prague(_) | Self::PragueReno(_) => Algorithm::Prague,
            Self::Westwood(_) => Algorithm::Westwood,
            Self::Yeah(_) => Algorithm::Yeah,
            Self::Guest(guest, _) => Algorithm::Guest(*guest),
            #[cfg(test)]
            Self::Test(_) => Algorithm::Reno,
        }
    }

    /// Its `in_ack_event` also acts on ACKs at `snd_una`, before the congestion state machine processes them.
    #[inline]
    pub fn has_in_ack_event(&self, snd_una: Seq) -> bool {
        match self {
            Self::Dctcp(dctcp) => dctcp.ends_window(snd_una),
            Self::Westwood(_) | Self::Guest(..) => true,
            #[cfg(test)]
            Self::Test(_) => true,
            Self::Reno(_)
            | Self::Cubic(_)
            | Self::DctcpReno(_)
            | Self::Bbr(_)
            | Self::Bbr3(_)
            | Self::Bic(_)
            | Self::HighSpeed(_)
            | Self::Scalable(_)
            | Self::Vegas(_)
            | Self::Veno(_)
            | Self::Cdg(_)
            | Self::Htcp(_)
            | Self::Hybla(_)
            | Self::Illinois(_)
            | Self::LowPriority(_)
            | Self::Nv(_)
            | Self::Prague(_)
            | Self::PragueReno(_)
            | Self::Yeah(_) => false,
        }
    }

    /// The kernel's name of the module in use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DctcpReno(_) => "dctcp-reno",
            Self::PragueReno(_) => "prague-reno",
            _ => self.algorithm().name(),
        }
    }

    /// The connection has not negotiated the kind of ECN that the module needs: a module that requires it becomes
    /// Reno (`dctcp_init`).
    pub fn fall_back(&mut self, has_ecn: bool, is_accurate: bool) {
        match self {
            Self::Dctcp(_) if !has_ecn => *self = Self::DctcpReno(Reno),
            Self::Prague(_) if !(has_ecn && is_accurate) => *self = Self::PragueReno(Reno),
            _ => {}
        }
    }
}

impl CongestionControl for AnyCongestionControl {
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        dispatch!(self, module => module.init(window, ack));
    }

    fn ssthresh(&mut self, window: &Window, ack: &Ack) -> u32 {
        dispatch!(self, module => module.ssthresh(window, ack))
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        dispatch!(self, module => module.cong_avoid(window, ack, acked));
    }

    fn pkts_acked(&mut self, window: &mut Window, ack: &Ack, sample: &AckSample) {
        dispatch!(self, module => module.pkts_acked(window, ack, sample));
    }

    fn in_ack_event(&mut self, window: &mut Window, ack: &Ack, flags: AckEventFlags) {
        dispatch!(self, module => module.in_ack_event(window, ack, flags));
    }

    fn skb_marked_lost(&mut self, window: &mut Window, ack: &Ack, packet: &LostPacket) {
        dispatch!(self, module => module.skb_marked_lost(window, ack, packet));
    }

    fn set_state(&mut self, window: &mut Window, ack: &Ack, new: CaState) {
        dispatch!(self, module => module.set_state(window, ack, new));
    }

    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        dispatch!(self, module => module.cwnd_event(window, ack, event));
    }

    fn has_cong_control(&self) -> bool {
        dispatch!(self, module => module.has_cong_control())
    }

    fn cong_control(&mut self, window: &mut Window, ack: &Ack, sample: &RateSample) {
        dispatch!(self, module => module.cong_control(window, ack, sample));
    }

    fn min_tso_segs(&self, window: &Window) -> Option<u32> {
        dispatch!(self, module => module.min_tso_segs(window))
    }

    fn max_tso_segs(&self, window: &Window, mss: u32) -> Option<u32> {
        dispatch!(self, module => module.max_tso_segs(window, mss))
    }

    fn sndbuf_expand(&self) -> u32 {
        dispatch!(self, module => module.sndbuf_expand())
    }

    fn undo_cwnd(&mut self, window: &Window, ack: &Ack) -> u32 {
        dispatch!(self, module => module.undo_cwnd(window, ack))
    }

    fn needs_ecn(&self) -> bool {
        dispatch!(self, module => module.needs_ecn())
    }

    fn needs_accecn(&self) -> bool {
        dispatch!(self, module => module.needs_accecn())
    }

    fn get_info(&self, ack: &Ack) -> Option<CcInfo> {
        match self {
            // The kernel returns the structure, filled with zeroes.
            Self::DctcpReno(_) => Some(CcInfo::Dctcp(dctcp::DctcpInfo::default())),
            module => dispatch!(module, module => module.get_info(ack)),
        }
    }
}
