//! Applications of a library user, by name and behind one type.

use std::net::SocketAddr;

use apps::App;
use apps::wording::{Kind, Wording};
use datapath::tcp::config::TcpConfig;

/// What a flow is, whose `app` a library user has named: made from the words behind the name.
pub trait Application: Send + Sync {
    /// The two ends of one flow, fresh for each: who sends or asks, and who receives or answers. The
    /// second one starts with the experiment and has to listen at `remote`.
    fn ends(&self, place: &FlowPlace) -> (Box<dyn App>, Box<dyn App>);

    /// True if it runs over TCP.
    fn is_tcp(&self) -> bool {
        true
    }

    /// True if it comes to an end by itself, which its report tells as `finished`.
    fn is_finite(&self) -> bool {
        false
    }
}

/// Where a flow runs.
#[derive(Clone, Debug)]
pub struct FlowPlace {
    /// The sending or asking end.
    pub local: SocketAddr,
    /// The receiving or answering end.
    pub remote: SocketAddr,
    /// How its sockets are configured: congestion control, sysctls, TOS.
    pub client: TcpConfig,
    /// Those of the receiving end.
    pub server: TcpConfig,
    /// TOS byte of what the sending end sends.
    pub tos: u8,
    /// That of what comes back.
    pub reply_tos: u8,
}

/// Applications that a library user has named: how their words are read.
pub type ApplicationKind = Kind<dyn Application>;

/// An application of a library user in the words of a flow.
pub type GuestApp = Wording<dyn Application>;
