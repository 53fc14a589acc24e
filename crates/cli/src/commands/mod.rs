//! One file per command.

pub mod agent;
pub mod bench;
pub mod bench_controller;
pub mod bound;
pub mod check;
pub mod compare;
pub mod completions;
pub mod list;
pub mod manual;
pub mod matrix;
pub mod merge;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod serve;
pub mod simtest;
pub mod testbed;
pub mod topology;
pub mod validate;
