//! Components from the text of a core module, and from bytes put together by hand.

use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

use crate::data;

const CONTRACT: &str = include_str!("../../../wit/rules.wit");
/// The exported interface.
pub const INTERFACE: &str = "delegate-doctor:rules/rule@0.1.0";

/// A core module that behaves, but for what a case changes.
pub struct Module {
    memory: String,
    realloc: String,
    describe: String,
    examine: String,
    more: String,
    segment: bool,
}

impl Module {
    /// A rule that declines everything.
    pub fn honest() -> Self {
        let answers = data::honest();
        Self {
            memory: "(memory (export \"memory\") 8)".to_owned(),
            realloc: "(local $at i32)
                (local.set $at (i32.and
                    (i32.add (global.get $top) (i32.sub (local.get $align) (i32.const 1)))
                    (i32.sub (i32.const 0) (local.get $align))))
                (global.set $top (i32.add (local.get $at) (local.get $size)))
                (local.get $at)"
                .to_owned(),
            describe: format!("(i32.const {})", answers.manifest),
            examine: format!("(i32.const {})", answers.decline),
            more: String::new(),
            segment: true,
        }
    }

    /// The memory's declaration; a memory that is too small for the honest answers goes without them.
    pub fn memory(mut self, declaration: &str) -> Self {
        declaration.clone_into(&mut self.memory);
        self.segment = false;
        self
    }

    /// The body of `cabi_realloc`, whose parameters are `$old`, `$from`, `$align` and `$size`.
    pub fn realloc(mut self, body: &str) -> Self {
        body.clone_into(&mut self.realloc);
        self
    }

    /// The body of `describe`.
    pub fn describe(mut self, body: &str) -> Self {
        body.clone_into(&mut self.describe);
        self
    }

    /// The body of `examine`, whose parameter is `$site`.
    pub fn examine(mut self, body: &str) -> Self {
        body.clone_into(&mut self.examine);
        self
    }

    /// `examine` returns the honest decline after these stores; `$d` stands for its address, `$at` is free.
    pub fn decline_with(self, stores: &str) -> Self {
        let at = data::honest().decline;
        let body = format!("(local $d i32) (local $at i32) (local.set $d (i32.const {at})) {stores} (local.get $d)");
        self.examine(&body)
    }

    /// Further fields of the module.
    pub fn more(mut self, fields: &str) -> Self {
        self.more.push_str(fields);
        self
    }

    /// A function that runs after the host has read what `examine` returned.
    pub fn after_examine(self, body: &str) -> Self {
        self.more(&format!("(func (export \"cabi_post_{INTERFACE}#examine\") (param $answer i32) {body})"))
    }

    /// The module's text.
    pub fn text(&self) -> String {
        let Self { memory, realloc, describe, examine, more, segment } = self;
        let segment = if *segment { data_segment(&data::honest().bytes) } else { String::new() };
        format!(
            "(module
                {memory}
                {segment}
                (global $top (mut i32) (i32.const 16384))
                (func $realloc (export \"cabi_realloc\")
                    (param $old i32) (param $from i32) (param $align i32) (param $size i32) (result i32) {realloc})
                (func $describe (export \"{INTERFACE}#describe\") (result i32) {describe})
                (func $examine (export \"{INTERFACE}#examine\") (param $site i32) (result i32) {examine})
                {more})"
        )
    }

    /// The module as a component of the contract.
    pub fn component(&self) -> Vec<u8> {
        component_of(&self.text())
    }
}

fn data_segment(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
    format!("(data (i32.const {}) \"{escaped}\")", data::START)
}

/// Bytes of a text in either form of WebAssembly.
///
/// # Panics
/// When the text does not parse: it is part of this crate.
pub fn assemble(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Text of a core module as a component of the contract.
///
/// # Panics
/// When it does not become one: it is part of this crate.
pub fn component_of(module: &str) -> Vec<u8> {
    encode(module, true)
}

/// The same for modules that a checking encoder would refuse.
///
/// # Panics
/// When it does not become one: it is part of this crate.
pub fn unchecked_component_of(module: &str) -> Vec<u8> {
    encode(module, false)
}

fn encode(module: &str, validate: bool) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("rules.wit", CONTRACT).unwrap_or_else(|error| panic!("{error}"));
    let world = resolve.select_world(&[package], None).unwrap_or_else(|error| panic!("{error}"));
    let mut module = assemble(module);
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, true)
        .unwrap_or_else(|error| panic!("{error}"));
    ComponentEncoder::default()
        .validate(validate)
        .module(&module)
        .and_then(|encoder| encoder.encode())
        .unwrap_or_else(|error| panic!("{error:#}"))
}

/// A number in LEB128.
pub fn leb(mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (n & 0x7f) as u8;
        n >>= 7;
        bytes.push(if n == 0 { byte } else { byte | 0x80 });
        if n == 0 {
            return bytes;
        }
    }
}

/// Appends a section to a component or a module.
pub fn append(bytes: &mut Vec<u8>, section: u8, content: &[u8]) {
    bytes.push(section);
    bytes.extend(leb(content.len()));
    bytes.extend_from_slice(content);
}

/// The first eight bytes of a component.
pub const COMPONENT: [u8; 8] = *b"\0asm\x0d\0\x01\0";

/// The honest component with `count` further instances of each of `modules`.
pub fn with_instances(modules: &[&str], count: usize) -> Vec<u8> {
    let mut bytes = Module::honest().component();
    for (index, module) in modules.iter().enumerate() {
        append(&mut bytes, 1, &assemble(module));
        // The honest component holds one core module.
        let one = [vec![0], leb(index + 1), vec![0]].concat();
        append(&mut bytes, 2, &[leb(count), one.repeat(count)].concat());
    }
    bytes
}
