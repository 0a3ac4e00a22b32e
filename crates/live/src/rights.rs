//! Rights that are not needed once devices are open.

use crate::sys;
use nix::unistd::User;

/// Becomes `user`, if one is given, and gives up all capabilities for good.
///
/// # Errors
/// There is no such user, or this process may not become one.
pub fn drop_privileges(user: Option<&str>) -> Result<(), String> {
    let who = match user {
        None => None,
        Some(name) => {
            let found = User::from_name(name).map_err(|error| format!("user {name}: {error}"))?;
            let found = found.ok_or_else(|| format!("there is no user \"{name}\""))?;
            Some((found.uid.as_raw(), found.gid.as_raw()))
        }
    };
    sys::drop_privileges(who)
        .map_err(|error| format!("cannot drop privileges: {error}; is this root?"))
}
