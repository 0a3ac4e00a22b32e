//! A router of one's own: `route --dev A --dev B [--config FILE | --import-kernel] [--ctl PATH]`, for those
//! devices and lines of `ip` and `tc`; `ackwright route` has the rest.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use datapath::units::Duration;
    use live::control::Control;
    use live::device::Pools;
    use live::open;
    use live::router::{Router, Settings};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    let (mut devices, mut file, mut ctl, mut follow_kernel) = (Vec::new(), None, None, false);
    let mut arguments = std::env::args().skip(1).filter(|word| word != "route");
    while let Some(option) = arguments.next() {
        match option.as_str() {
            "--dev" => devices.extend(arguments.next()),
            "--config" => file = arguments.next().map(PathBuf::from),
            "--ctl" => ctl = arguments.next().map(PathBuf::from),
            "--import-kernel" => follow_kernel = true,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    // Nobody tells the end but `stop` of the control socket.
    let (stop, _never) = UnixStream::pair()?;
    stop.set_nonblocking(true)?;
    let mtu = open::largest_mtu(&devices);
    let mut pools = Pools::new(mtu);
    let (mut opened, mut locks) = (Vec::new(), Vec::new());
    for name in &devices {
        let (device, lock) = open::open(name, mtu, &mut pools)?.into_parts();
        opened.push(device);
        locks.push(lock);
    }
    let settings = Settings {
        follow_kernel,
        file: file.clone(),
        drain: Duration::from_secs(2),
        busy_poll: Duration::ZERO,
        seed: 1,
    };
    let mut router = Router::new(opened, pools, stop, settings)?;
    if let Some(file) = file {
        router.load(&std::fs::read_to_string(file)?).map_err(|(line, said, wrong)| {
            format!("line {line}: {} in \"{said}\"", wrong.message)
        })?;
    }
    if let Some(path) = ctl {
        router.listen(Control::listen(&path)?);
    }
    eprintln!("routing between {}", devices.join(", "));
    router.run()?;
    println!("{}", router.json());
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
