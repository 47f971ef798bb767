//! Bad inputs through the real `optimize`: what a user can get wrong, and what a machine can do to a run.
//!
//! Every case ends with the right exit code, a message that names what and why, a hint where there is a
//! next step, an empty stdout, and nothing half-written: no optimized program, no report, no file that was
//! being written, and a run folder that `--resume` accepts.
//!
//! | where | cases |
//! |---|---|
//! | [`arguments`] | missing file, path of an unknown kind, folder, empty argument, lowered program, weights, foreign framework, bad `module:callable`, flags without sense (threads, gain, share, times, sizes, target, rules), a `.pt2` that is empty, random, cut off, of a newer schema, a zip bomb, with a path that escapes, several programs, no program |
//! | [`folders`] | `--out` that holds photos, is a file, lies below a file, cannot be written, holds a run; resume of nothing, of another model, of a newer version's run, of a torn record; two runs in one folder |
//! | [`pythons`] | none on PATH, no such interpreter, something that is no interpreter, too old, without torch, without executorch, with an executorch that is too old |
//! | [`models`] | syntax error; raises at import, when built, in forward; `sys.exit`, `os._exit`, a crash, a hang, all memory; no model function, no inputs function; inputs of a wrong type, shape or container; not a module; missing module, missing attribute; prints; cannot be lowered; lowers and cannot be run |
//! | [`odd_models`] | outputs of one number, of random numbers, of no numbers; writes into an input; an input that is no tensor; names in any script; a limit that ends the search |
//! | [`disks`] | a full disk, a limit on file sizes, a read-only disk, a full stdout |
//! | [`files`] | pipes and devices in place of files, names that are no text |
//! | [`interrupts`] | Ctrl-C in each stage, kill -9, and resuming after each |

#[path = "bad_inputs/arguments.rs"]
mod arguments;
#[path = "bad_inputs/disks.rs"]
mod disks;
#[path = "bad_inputs/files.rs"]
mod files;
#[path = "bad_inputs/folders.rs"]
mod folders;
#[path = "bad_inputs/interrupts.rs"]
mod interrupts;
#[path = "bad_inputs/models.rs"]
mod models;
#[path = "bad_inputs/odd_models.rs"]
mod odd_models;
#[path = "bad_inputs/place.rs"]
mod place;
#[path = "bad_inputs/pythons.rs"]
mod pythons;
