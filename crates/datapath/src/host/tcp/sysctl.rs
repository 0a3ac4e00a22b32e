//! The host's settings of TCP: `net.ipv4.*` and the parameters of DCTCP.

use super::TcpSocket;
use crate::host::{Host, Socket};
use crate::profile::DctcpAck;
use crate::tcp::cc::{Algorithm, dctcp};
use crate::tcp::config::{PmtuDiscovery, SysctlError, TcpConfig};
use std::sync::Arc;

impl Host {
    /// What new sockets begin with: the host's sysctls and its kernel.
    pub fn tcp_defaults(&self) -> TcpConfig {
        self.tcp.as_ref().map(|stack| stack.defaults.clone()).unwrap_or_default()
    }

    /// Whether new sockets discover the path MTU over IPv4 (`inet_create`).
    pub(crate) fn new_discovery(&self) -> PmtuDiscovery {
        let defaults = self.tcp.as_ref().map(|stack| &stack.defaults.socket);
        defaults.map(|socket| socket.pmtu_discovery).unwrap_or_default()
    }

    /// Sets what new sockets begin with. Sockets that exist keep what they have.
    pub fn set_tcp_defaults(&mut self, defaults: TcpConfig) {
        let stack = self.tcp_stack();
        *stack.defaults = defaults;
        stack.defaults.note_reflection();
        if stack.defaults.sysctl.ip_no_pmtu_disc != 0 {
            stack.defaults.note_discovery();
        }
        stack.sysctl_version += 1;
    }

    /// Counts changes of the sysctls.
    #[inline]
    pub fn tcp_sysctl_version(&self) -> u32 {
        self.tcp.as_ref().map_or(0, |stack| stack.sysctl_version)
    }

    /// Writes one of the sysctls `net.ipv4.*`, `net.ipv6.ip6frag_*`, as text. All sockets read it from now on; buffer
    /// sizes, the congestion control and the bounds of retransmission timeouts hold for new ones.
    ///
    /// # Errors
    /// There is no such sysctl, or it cannot have that value.
    pub fn set_tcp_sysctl(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        if Self::IP_SYSCTLS.contains(&name) {
            return self.set_ip_sysctl(name, value);
        }
        let stack = self.tcp_stack();
        stack.sysctl_version += 1;
        if let Some(learnt) = &mut stack.learnt {
            // `tcp_tw_reuse` may say that some are free now.
            learnt.ports_used_up = None;
        }
        let defaults = &mut stack.defaults;
        if matches!(name, "tcp_congestion_control" | "net.ipv4.tcp_congestion_control") {
            let algorithm = Algorithm::by_name(value.trim())
                .ok_or_else(|| SysctlError::Value(format!("no congestion control {value}")))?;
            defaults.congestion_control = algorithm;
            return Ok(());
        }
        let discovered = defaults.sysctl.ip_no_pmtu_disc == 0;
        defaults.sysctl.set(name, value)?;
        defaults.note_reflection();
        if discovered != (defaults.sysctl.ip_no_pmtu_disc == 0) {
            defaults.note_discovery();
        }
        let sysctl = defaults.sysctl.clone();
        for socket in self.sockets.iter_mut() {
            match socket {
                Socket::Tcp(TcpSocket::Connection(socket)) => {
                    socket.connection.config_mut().read_sysctl(&sysctl);
                }
                Socket::Tcp(TcpSocket::Listener(listener)) => {
                    Arc::make_mut(&mut listener.config).read_sysctl(&sysctl);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a parameter of the DCTCP module (`/sys/module/tcp_dctcp/parameters`), and ours beside
    /// them, `dctcp_ack`. It is for sockets to come.
    ///
    /// # Errors
    /// There is no such parameter, or it cannot have that value.
    pub fn set_dctcp_parameter(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        let defaults = &mut self.tcp_stack().defaults;
        let number = |most: u32| {
            let number = value.trim().parse().ok().filter(|number| *number <= most);
            number.ok_or_else(|| SysctlError::Value(format!("{name} takes 0 to {most}")))
        };
        match name {
            "dctcp_shift_g" => defaults.dctcp.shift_g = number(10)? as u8,
            "dctcp_alpha_on_init" => defaults.dctcp.alpha_on_init = number(dctcp::MAX_ALPHA)?,
            "dctcp_ack" => {
                let rule = DctcpAck::by_name(value.trim()).ok_or_else(|| {
                    let names = DctcpAck::ALL.map(DctcpAck::name).join(" or ");
                    SysctlError::Value(format!("{name} takes {names}"))
                })?;
                defaults.profile = defaults.profile.clone().with_dctcp_ack(rule);
            }
            _ => return Err(SysctlError::Unknown),
        }
        Ok(())
    }
}
