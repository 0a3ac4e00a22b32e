//! Options whose value is more than a number.

use super::set::Setter;
use crate::socket::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "a hundred names, each of them plain")]
use crate::socket::number::*;
use crate::socket::option::{Md5Signature, OptionValue};
use crate::tcp::Connection;
use crate::tcp::cc::Algorithm;
use crate::tcp::fastopen::Keys;
use crate::tcp::md5;

/// `sizeof(struct linger)`.
pub(in crate::socket) const LINGER_LEN: u32 = 8;

/// `TCP_CA_NAME_MAX`, the end left out.
const CONGESTION_NAME_MAX: usize = 15;

impl Setter<'_> {
    pub(super) fn structured(
        &mut self,
        level: i32,
        name: i32,
        value: &OptionValue,
        len: u32,
    ) -> Result<(), Errno> {
        match (level, name, value) {
            (SOL_SOCKET, SO_LINGER, OptionValue::Linger { .. }) if len < LINGER_LEN => {
                return Err(Errno::EINVAL);
            }
            (SOL_SOCKET, SO_LINGER, OptionValue::Linger { on, seconds }) => {
                let options = &mut self.stream.options;
                options.linger = on.then_some(*seconds);
                options.linger_time = options.linger.unwrap_or(options.linger_time);
            }
            (SOL_SOCKET, SO_RCVTIMEO, OptionValue::Time(span)) => {
                self.stream.options.receive_timeout = span.nonzero();
            }
            (SOL_SOCKET, SO_SNDTIMEO, OptionValue::Time(span)) => {
                self.stream.options.send_timeout = span.nonzero();
            }
            (SOL_TCP, TCP_CONGESTION, OptionValue::Text(text)) => {
                let read = (len as usize).min(CONGESTION_NAME_MAX);
                if read == 0 {
                    return Err(Errno::EINVAL);
                }
                let name = text.get(..read).unwrap_or(text).trim_end_matches('\0');
                let algorithm = Algorithm::by_name(name).ok_or(Errno::ENOENT)?;
                let tcp = self.stream.connection().and_then(|id| self.host.tcp_connection(id));
                if tcp.is_some_and(Connection::congestion_control_is_locked) {
                    return Err(Errno::EPERM);
                }
                self.configure(|config| config.congestion_control = algorithm);
                let now = self.now;
                self.with_tcp(|tcp, _| tcp.set_congestion_control(algorithm, now));
            }
            (SOL_TCP, TCP_FASTOPEN_KEY, OptionValue::Bytes(bytes)) => {
                let keys = Keys::from_bytes(bytes).ok_or(Errno::EINVAL)?;
                self.configure(|config| config.socket.fastopen_key = Some(keys));
            }
            (SOL_TCP, TCP_FASTOPEN_KEY, OptionValue::Text(text)) => {
                let bytes = text.as_bytes();
                let keys = Keys::parse(text).or_else(|| Keys::from_bytes(bytes));
                let keys = keys.ok_or(Errno::EINVAL)?;
                self.configure(|config| config.socket.fastopen_key = Some(keys));
            }
            (SOL_TCP, TCP_MD5SIG | TCP_MD5SIG_EXT, OptionValue::Md5(signature)) => {
                self.md5(name, signature)?;
            }
            (SOL_TCP, TCP_ULP, OptionValue::Text(_)) => return Err(Errno::ENOENT),
            (SOL_SOCKET | SOL_TCP | SOL_IP | SOL_IPV6, ..) => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    fn md5(&mut self, name: i32, signature: &Md5Signature) -> Result<(), Errno> {
        if signature.key.len() > 80 {
            return Err(Errno::EINVAL);
        }
        let network = signature.address.ip().to_canonical();
        let all = if network.is_ipv4() { 32 } else { 128 };
        let prefix_len = match signature.prefix_len {
            Some(len) if name == TCP_MD5SIG_EXT && len <= all => len,
            Some(_) if name == TCP_MD5SIG_EXT => return Err(Errno::EINVAL),
            _ => all,
        };
        let known = self
            .stream
            .config
            .socket
            .md5
            .iter()
            .any(|key| key.network == network && key.prefix_len == prefix_len);
        if signature.key.is_empty() && !known {
            return Err(Errno::ENOENT);
        }
        let key = md5::Key { network, prefix_len, secret: signature.key.clone() };
        self.configure(|config| {
            let keys = &mut config.socket.md5;
            keys.retain(|old| old.network != key.network || old.prefix_len != key.prefix_len);
            if !key.secret.is_empty() {
                keys.push(key.clone());
                // It stays so when the key is taken away.
                config.gso_max_segs = 1;
            }
        });
        self.with_tcp(|tcp, _| tcp.md5_keys_changed());
        Ok(())
    }
}
