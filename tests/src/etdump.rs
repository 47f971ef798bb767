//! ETDump files of any size, made up.

use flatbuffers::{FlatBufferBuilder, WIPOffset};

/// Places of fields in the tables of ETDump's schema.
mod slot {
    pub(super) const RUNS: u16 = 6;
    pub(super) const RUN_NAME: u16 = 4;
    pub(super) const RUN_EVENTS: u16 = 10;
    pub(super) const PROFILE: u16 = 4;
    pub(super) const NAME: u16 = 4;
    pub(super) const INSTRUCTION: u16 = 8;
    pub(super) const DELEGATE_TEXT: u16 = 12;
    pub(super) const START: u16 = 16;
    pub(super) const END: u16 = 18;
}

/// A dump of `runs` runs with `kernels` kernels inside a delegate and as many outside, each of 1000 ticks; a run has
/// three events for each kernel pair and two more.
pub fn dump(runs: usize, kernels: usize) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let mut made = Vec::new();
    for _ in 0..runs {
        let mut events = Vec::new();
        let mut now = 1_000_000_u64;
        for kernel in 0..kernels {
            let name = format!("Convolution (NHWC, F32) IGEMM #{kernel}");
            events.push(event(&mut builder, &name, true, 0, [now, now + 1000]));
            now += 1000;
        }
        events.push(event(&mut builder, "DELEGATE_CALL", false, 0, [1_000_000, now]));
        for kernel in 0..kernels {
            let instruction = i32::try_from(kernel + 1).unwrap_or(i32::MAX);
            for name in ["native_call_add.out", "OPERATOR_CALL"] {
                events.push(event(&mut builder, name, false, instruction, [now, now + 1000]));
            }
            now += 1000;
        }
        events.push(event(&mut builder, "Method::execute", false, -1, [1_000_000, now]));
        let name = builder.create_string("Execute");
        let events = builder.create_vector(&events);
        let start = builder.start_table();
        builder.push_slot_always(slot::RUN_NAME, name);
        builder.push_slot_always(slot::RUN_EVENTS, events);
        made.push(builder.end_table(start));
    }
    let made = builder.create_vector(&made);
    let start = builder.start_table();
    builder.push_slot_always(slot::RUNS, made);
    let root = builder.end_table(start);
    builder.finish_size_prefixed(root, Some("ED00"));
    builder.finished_data().to_vec()
}

fn event<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    name: &str,
    delegate: bool,
    instruction: i32,
    [begin, end]: [u64; 2],
) -> WIPOffset<flatbuffers::TableFinishedWIPOffset> {
    let name = builder.create_shared_string(name);
    let start = builder.start_table();
    builder.push_slot_always(slot::START, begin);
    builder.push_slot_always(slot::END, end);
    builder.push_slot_always(if delegate { slot::DELEGATE_TEXT } else { slot::NAME }, name);
    builder.push_slot_always(slot::INSTRUCTION, instruction);
    let inner = builder.end_table(start);
    let start = builder.start_table();
    builder.push_slot_always(slot::PROFILE, inner);
    builder.end_table(start)
}
