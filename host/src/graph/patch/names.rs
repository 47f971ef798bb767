//! Names of values and nodes.

use std::sync::Arc;

use super::super::{Node, Value, ValueId, ValueSource, alias};
use super::apply::Draft;

impl Draft<'_> {
    /// `permute`, `permute_1`, …: the first that is free. Names of Python builtins begin with `_1`, as
    /// the exporter has it.
    pub(super) fn new_name(&mut self, base: &str) -> String {
        const BUILTINS: [&str; 24] = [
            "abs", "all", "any", "bool", "bytes", "complex", "divmod", "float", "hash", "id", "input", "int", "len",
            "list", "map", "max", "min", "pow", "range", "repr", "round", "slice", "sum", "type",
        ];
        let mut name = base.to_owned();
        let mut number = self.last_number.get(base).copied().unwrap_or_default();
        if number > 0 {
            name = format!("{base}_{number}");
        }
        while BUILTINS.contains(&name.as_str()) || self.program.has_name(&name) || !self.names.insert(name.clone()) {
            number += 1;
            name = format!("{base}_{number}");
        }
        self.last_number.insert(base.to_owned(), number);
        name
    }

    /// Graph outputs keep their names: a made value that replaced one gets its name, and so does its node.
    pub(super) fn move_names(&mut self) {
        for (old, new) in std::mem::take(&mut self.taken_over) {
            // What was replaced twice passes its name on to the last.
            if !self.is_returned(new) {
                continue;
            }
            let Some(before) = self.program.graph().value(old).map(|value| value.name.clone()) else { continue };
            if self.values.contains(old) {
                let producer = self.producer(old);
                let base = producer.as_ref().map_or("value", |node| alias::base_name(&node.op)).to_owned();
                let name = self.new_name(&base);
                self.rename(old, &name);
            }
            self.rename(new, &before);
        }
    }

    fn producer(&self, value: ValueId) -> Option<Arc<Node>> {
        match self.values.get(value)?.source {
            ValueSource::Node { node, .. } => self.nodes.get(node).map(Arc::clone),
            _ => None,
        }
    }

    fn rename(&mut self, value: ValueId, name: &str) {
        let Some(old) = self.values.get(value).map(Arc::clone) else { return };
        self.values.insert(value, Arc::new(Value { name: name.to_owned(), ..Value::clone(&old) }));
        if let Some(node) = self.producer(value).filter(|node| node.name == old.name) {
            self.nodes.insert(node.id, Arc::new(Node { name: name.to_owned(), ..Node::clone(&node) }));
        }
    }
}
