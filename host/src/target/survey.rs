//! The targets that this host can reach now, without making any of them ready.

use serde::Serialize;

use super::adb::{self, DeviceState};
use super::selector::DEFAULT_CPU;
use super::{Error, local, qemu};
use crate::hint::Hint as _;

/// A target that was found, or that something is missing for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// what `--target` takes
    pub target: String,
    /// `READY`, or what keeps it from being used
    pub state: String,
    /// what a person calls it
    pub what: String,
    /// the next step where it is not ready
    pub next: Option<String>,
}

/// Looks for targets: this host, the emulator, Android devices. Starts the server of `adb` if there is a client.
///
/// # Errors
/// When the user stops the tool.
pub fn survey() -> Result<Vec<Found>, Error> {
    let this_host = local::label_of(std::env::consts::ARCH);
    let mut found = vec![Found {
        target: "local".to_owned(),
        state: DeviceState::Ready.to_string(),
        what: this_host.name,
        next: None,
    }];
    let emulated = qemu::label_of(DEFAULT_CPU);
    found.push(match qemu::emulator(&emulated) {
        Ok((_, version)) => Found {
            target: format!("qemu:{DEFAULT_CPU}"),
            state: DeviceState::Ready.to_string(),
            what: format!("{}, qemu {version}; correctness only", emulated.name),
            next: None,
        },
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => Found {
            target: format!("qemu:{DEFAULT_CPU}"),
            state: "NO_QEMU".to_owned(),
            what: emulated.name,
            next: error.hint(),
        },
    });
    let missing = |state: DeviceState| Found {
        target: "adb".to_owned(),
        state: state.to_string(),
        what: "Android devices".to_owned(),
        next: state.next_step().map(str::to_owned),
    };
    match adb::list(&[]) {
        Ok(devices) if devices.is_empty() => found.push(missing(DeviceState::None)),
        Ok(devices) => found.extend(devices.into_iter().map(|device| {
            let state = device.state();
            Found {
                target: format!("adb:{}", device.serial),
                state: state.to_string(),
                what: device.model.unwrap_or_else(|| "Android device".to_owned()),
                next: state.next_step().map(str::to_owned),
            }
        })),
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(Error::NotReady { state, .. }) => found.push(missing(state)),
        Err(error) => return Err(error),
    }
    Ok(found)
}
