//! The RRUL test ("realtime response under load", flent): four bulk flows each way, one for each
//! of four traffic classes, and probes in three classes and by ICMP meanwhile.

use super::{Ping, TcpSend, TcpSink, UdpEcho};
use crate::link::NodeId;
use crate::world::{AppId, World};
use core::net::{IpAddr, SocketAddr};
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};

/// The two hosts and the time of a test.
#[derive(Clone, Debug)]
pub struct RrulPlan {
    /// The host that starts everything, and its address.
    pub client: (NodeId, IpAddr),
    /// The other, and its address.
    pub server: (NodeId, IpAddr),
    /// When the probes begin. The flows begin [`RrulPlan::HEAD_START`] later.
    pub start: Instant,
    /// When the flows end. The probes end that much later.
    pub stop: Instant,
    /// Settings of the flows; each gets its own class on top.
    pub tcp: TcpConfig,
}

/// The applications of a test, to ask for their reports.
#[derive(Clone, Debug)]
pub struct Rrul {
    /// The senders at the client, by class.
    pub uploads: [AppId; 4],
    /// The senders at the server, by class.
    pub downloads: [AppId; 4],
    /// What receives the uploads, by class.
    pub upload_sinks: [AppId; 4],
    /// What receives the downloads, by class.
    pub download_sinks: [AppId; 4],
    /// UDP probes in the classes BK, BE and EF.
    pub udp_pings: [AppId; 3],
    /// The ICMP probe.
    pub icmp_ping: AppId,
}

/// The classes of the flows as TOS bytes: best effort, background (CS1), video (CS5), voice (EF).
const CLASSES: [u8; 4] = [0, 0x20, 0xa0, 0xb8];
/// The classes of the UDP probes: background, best effort, voice.
const PROBES: [u8; 3] = [0x20, 0, 0xb8];
const PROBE_EVERY: Duration = Duration::from_millis(200);
const PROBE_BYTES: u32 = 56;
const FIRST_PORT: u16 = 12865;

impl RrulPlan {
    /// How much longer the probes run than the flows, before and after.
    pub const HEAD_START: Duration = Duration::from_secs(5);

    /// Puts the applications on their hosts.
    pub fn add_to(&self, world: &mut World) -> Rrul {
        let (client, server) = (self.client, self.server);
        let uploads = CLASSES.map(|tos| self.flow(world, client, server, tos));
        let downloads = CLASSES.map(|tos| self.flow(world, server, client, tos));
        let mut probe = 0;
        let udp_pings = PROBES.map(|tos| {
            probe += 1;
            self.udp_ping(world, FIRST_PORT + 100 + probe, tos)
        });
        let ping = Ping::icmp(server.1, PROBE_BYTES, PROBE_EVERY);
        let last = self.stop + Self::HEAD_START;
        Rrul {
            uploads: uploads.map(|(sender, _)| sender),
            downloads: downloads.map(|(sender, _)| sender),
            upload_sinks: uploads.map(|(_, sink)| sink),
            download_sinks: downloads.map(|(_, sink)| sink),
            udp_pings,
            icmp_ping: world.add_app(client.0, Box::new(ping), self.start, Some(last)),
        }
    }

    fn flow(
        &self,
        world: &mut World,
        (from, local): (NodeId, IpAddr),
        (to, remote): (NodeId, IpAddr),
        tos: u8,
    ) -> (AppId, AppId) {
        let tcp = TcpConfig { tos, ..self.tcp.clone() };
        let port = FIRST_PORT + u16::from(tos);
        let (local, remote) = (SocketAddr::new(local, 0), SocketAddr::new(remote, port));
        let sink = TcpSink::new(remote, tcp.clone());
        let sink = world.add_app(to, Box::new(sink), self.start, None);
        let sender = TcpSend::bulk(local, remote, tcp);
        let start = self.start + Self::HEAD_START;
        (world.add_app(from, Box::new(sender), start, Some(self.stop)), sink)
    }

    fn udp_ping(&self, world: &mut World, port: u16, tos: u8) -> AppId {
        let remote = SocketAddr::new(self.server.1, port);
        let local = SocketAddr::new(self.client.1, port);
        world.add_app(self.server.0, Box::new(UdpEcho::new(remote).tos(tos)), self.start, None);
        let ping = Ping::udp(local, remote, PROBE_BYTES, PROBE_EVERY).tos(tos);
        let last = self.stop + Self::HEAD_START;
        world.add_app(self.client.0, Box::new(ping), self.start, Some(last))
    }
}
