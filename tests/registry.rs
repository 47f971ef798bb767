//! Signed registries as their users, contributors and maintainers meet them: real metadata, real keys, real files
//! and hosts, and everybody who might want to hand them something else.

#[path = "registry/attacks.rs"]
mod attacks;
#[path = "registry/command_line.rs"]
mod command_line;
#[path = "registry/local_attacks.rs"]
mod local_attacks;
#[path = "registry/no_keys.rs"]
mod no_keys;
#[path = "registry/publishing.rs"]
mod publishing;
#[path = "registry/python_tuf.rs"]
mod python_tuf;
#[path = "registry/simulator.rs"]
mod simulator;
#[path = "registry/terminal.rs"]
mod terminal;
#[path = "registry/tls.rs"]
mod tls;
#[path = "registry/told.rs"]
mod told;
#[path = "registry/torture.rs"]
mod torture;
#[path = "registry/workflow.rs"]
mod workflow;
#[path = "registry/world.rs"]
mod world;
