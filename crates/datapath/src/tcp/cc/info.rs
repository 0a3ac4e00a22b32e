//! What congestion control modules report: `union tcp_cc_info`, and the inet_diag attributes.

use super::bbr::BbrInfo;
use super::dctcp::DctcpInfo;
use super::vegas::VegasInfo;

/// A module's information (`union tcp_cc_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CcInfo {
    /// `struct tcp_dctcp_info`.
    Dctcp(DctcpInfo),
    /// `struct tcp_bbr_info`.
    Bbr(BbrInfo),
    /// `struct tcpvegas_info`.
    Vegas(VegasInfo),
}

impl CcInfo {
    /// The attribute's number in an inet_diag answer (`INET_DIAG_DCTCPINFO`, `INET_DIAG_BBRINFO`,
    /// `INET_DIAG_VEGASINFO`).
    pub const fn attribute(&self) -> u16 {
        match self {
            Self::Dctcp(_) => 9,
            Self::Bbr(_) => 16,
            Self::Vegas(_) => VEGASINFO,
        }
    }

    /// The structure's bytes, without the unused rest of the union.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Dctcp(info) => info.to_bytes().to_vec(),
            Self::Bbr(info) => info.to_bytes().to_vec(),
            Self::Vegas(info) => info.to_bytes().to_vec(),
        }
    }

    /// Whether a request with these `idiag_ext` bits gets the attribute: bit n-1 asks for attribute
    /// n. DCTCP and BBR answer to `INET_DIAG_VEGASINFO` (3) as well, since the field has eight bits.
    pub const fn is_requested(&self, idiag_ext: u8) -> bool {
        match self {
            Self::Dctcp(_) | Self::Bbr(_) | Self::Vegas(_) => {
                idiag_ext & (1 << (VEGASINFO - 1)) != 0
            }
        }
    }
}

/// `INET_DIAG_VEGASINFO`.
const VEGASINFO: u16 = 3;
