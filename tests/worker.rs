//! The worker with real torch and executorch: what it says about good models and bad ones.

#[path = "worker/bad_models.rs"]
mod bad_models;
#[path = "worker/bench.rs"]
mod bench;
#[path = "worker/lowering.rs"]
mod lowering;
#[path = "worker/programs.rs"]
mod programs;
#[path = "worker/running.rs"]
mod running;
