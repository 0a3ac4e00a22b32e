//! What must hold for any input; the fuzz targets check the same.

use datapath::fib::Route;
use iproute::ip::Ip;
use iproute::ip::import;
use iproute::ip::netlink::{self, Interfaces};

/// Ports and the kernel's interface numbers are one and the same.
struct Same;

impl Interfaces for Same {
    fn index(&self, port: u16) -> u32 {
        port.into()
    }

    fn port(&self, index: u32) -> u16 {
        index as u16
    }
}

/// Any lines are commands or errors; what they configure is saved as lines that are all valid and
/// that configure the same again.
pub fn check_lines(text: &str) {
    let mut ip = Ip::new();
    for line in text.lines() {
        let _ = ip.run(line);
    }
    let saved = ip.save();
    let mut again = Ip::new();
    if let Err((line, error)) = again.run_all(&saved) {
        panic!("line {line} of what was saved: {error}\n{saved}\nafter:\n{text}");
    }
    assert_eq!(again.save(), saved, "after:\n{text}");
}

/// Any bytes are a route, an object, a dump, or an error; what is a route comes back the same.
pub fn check_netlink(bytes: &[u8]) {
    if let Ok(route) = netlink::decode_route(bytes, &Same) {
        let again = netlink::decode_route(&netlink::encode_route(&route, &Same), &Same);
        let again: Route = again.unwrap_or_else(|error| panic!("{error}: {route:?}"));
        assert_eq!(again, route);
    }
    if let Ok((id, config)) = netlink::decode_object(bytes, &Same) {
        let again = netlink::decode_object(&netlink::encode_object(id, &config, &Same), &Same);
        assert_eq!(again.expect("an object of ours"), (id, config));
    }
    let kinds = [import::RTM_NEWLINK, import::RTM_NEWADDR, import::RTM_NEWRULE];
    for kind in kinds.into_iter().chain([netlink::RTM_NEWROUTE, netlink::RTM_NEWNEXTHOP]) {
        let _ = import::import(&[(kind, bytes.to_vec())]);
    }
}
