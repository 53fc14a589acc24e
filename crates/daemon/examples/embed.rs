//! Runs a daemon inside another program with the configuration file of the only argument, until
//! standard input ends.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use anabranch_daemon::{Daemon, Settings, config, logs};

fn main() -> ExitCode {
    let settings = match std::env::args_os().nth(1) {
        Some(file) => config::load(Path::new(&file)),
        None => Ok(Settings::default()),
    };
    let started = settings.map_err(|error| error.to_string()).and_then(|settings| {
        logs::begin(&settings.log);
        Daemon::start(&settings).map_err(|error| error.to_string())
    });
    match started {
        Ok(daemon) => {
            println!("switches: {}", daemon.openflow);
            // End of input and errors both stop the daemon.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            daemon.stop();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
