//! Experiments on Mininet and Open vSwitch: the same files, the same records.

#![forbid(unsafe_code)]
