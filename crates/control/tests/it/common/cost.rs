//! Time and memory of this thread and process, for measurements.

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the CPU time of this thread, ms: other load on the machine does not change it.
pub fn cpu_ms() -> f64 {
    std::thread::yield_now(); // The kernel updates the time when the thread is scheduled.
    let times = read("/proc/thread-self/schedstat");
    let ns = times.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("the time on the CPU") / 1e6
}

/// Returns the memory of this process, MiB.
pub fn resident_mib() -> u64 {
    let status = read("/proc/self/status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}
