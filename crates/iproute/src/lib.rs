//! iproute
