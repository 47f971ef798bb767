//! Delegate Doctor: finds where a lowered PyTorch model really spends its time, repairs the fallbacks
//! that matter with sandboxed rules, and keeps a repair only when the target proves it.

mod account;
mod proposal;
mod reference;
mod trial;
mod workbench;

mod torch_operators;
mod trial;
mod workbench;

pub mod cache;
pub mod cli;
pub mod clock;
pub mod decision;
pub mod evidence;
pub mod export;
pub mod files;
pub mod gates;
pub mod graph;
pub mod hint;
pub mod insight;
pub mod interpreter;
pub mod interrupt;
pub mod lower;
pub mod matching;
pub mod model;
pub mod output;
pub mod pipeline;
pub mod profile;
pub mod progress;
pub mod rank;
pub mod registry;
pub mod report;
pub mod rewrite;
pub mod run_folder;
pub mod sandbox;
pub mod settings;
pub mod surroundings;
pub mod target;
pub mod tensor;
pub mod torch;
