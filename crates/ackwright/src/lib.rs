//! ackwright
