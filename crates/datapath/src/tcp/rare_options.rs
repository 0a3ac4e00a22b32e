//! Options that few connections send: signatures and Fast Open's.

use super::options::MAX_OPTION_SPACE;
use super::{Connection, md5};
use crate::packet::{Packet, TcpFlags};

impl Connection {
    /// Bytes of the options that [`add_rare_options`](Self::add_rare_options) will add to a
    /// SYN-ACK.
    pub(super) fn rare_option_len(&self) -> u32 {
        let mut cookie = [0; 20];
        let signature = if self.md5_key().is_some() { md5::OPTION_LEN } else { 0 };
        signature + self.fast_open_option(&mut cookie) as u32
    }

    /// Adds the options that few connections send: MD5 in front, Fast Open behind.
    #[cold]
    pub(super) fn add_rare_options(&self, packet: &mut Packet) {
        let Some(&tcp) = packet.tcp() else { return };
        let mut bytes = [0; MAX_OPTION_SPACE as usize];
        let mut at = 0;
        let key = self.md5_key();
        if key.is_some() {
            at = md5::OPTION_LEN as usize;
            bytes[..at].copy_from_slice(&md5::empty_option());
        }
        let known = tcp.options.len() as usize;
        let mut last = [0; 20];
        let handshake = tcp.flags.contains(TcpFlags::SYN);
        let last_len = if handshake { self.fast_open_option(&mut last) } else { 0 };
        let room = MAX_OPTION_SPACE as usize;
        if (key.is_none() && last_len == 0) || at + known > room {
            return;
        }
        tcp.options.write(&mut bytes[at..at + known]);
        let mut end = at + known;
        if end + last_len <= room {
            bytes[end..end + last_len].copy_from_slice(&last[..last_len]);
            end += last_len;
        }
        if let Some(key) = key {
            let header_len = 20 + end as u32;
            let digest = md5::digest(&packet.network, &tcp, header_len, &packet.body, key);
            bytes[4..20].copy_from_slice(&digest);
        }
        packet.set_tcp_options(&bytes[..end]);
    }
}
