//! Where the time goes in the user's own source: modules in modules, then families of kernels, each as wide as its
//! time.

use indexmap::IndexMap;
use serde::Serialize;

use crate::profile::breakdown::Row;
use crate::profile::kernels::family_of;
use crate::report::breakdown::ProfileDocument;
use crate::report::figures;

use super::profile_page::category_class;

/// Narrower than this is not drawn, in per cent of the whole.
const NARROWEST: f64 = 0.2;
/// Modules in modules that are drawn; what lies deeper is drawn in the last one.
const DEEPEST: usize = 10;
/// Rows of the table beside the drawing.
const LISTED: usize = 1000;

/// The drawing, and the same as a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ModuleMap {
    /// instructions instead of modules, whose names are not known
    by_instruction: bool,
    /// levels that are drawn
    levels: usize,
    cells: Vec<Cell>,
    /// what it shows, in words
    words: String,
    modules: Vec<ModuleRow>,
    /// modules that the table leaves out
    unlisted: usize,
}

/// A box of the drawing; in per cent from the left, and in levels from the top.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Cell {
    left: f64,
    width: f64,
    level: usize,
    class: &'static str,
    outside: bool,
    name: String,
    title: String,
}

/// A module with all that is in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ModuleRow {
    name: String,
    time: String,
    share: String,
    outside: String,
    kernels: usize,
    sort_time: f64,
    sort_outside: f64,
}

/// A module, or the method itself.
#[derive(Default)]
struct Module<'a> {
    modules: IndexMap<String, Module<'a>>,
    families: IndexMap<(&'a str, bool), Family>,
    time: f64,
    outside: f64,
    kernels: usize,
}

struct Family {
    time: f64,
    kernels: usize,
    class: &'static str,
}

impl<'a> Module<'a> {
    fn add(&mut self, path: &[String], row: &'a Row, time: f64) {
        self.time += time;
        self.kernels += 1;
        if !row.delegated {
            self.outside += time;
        }
        if let Some((first, rest)) = path.split_first() {
            self.modules.entry(first.clone()).or_default().add(rest, row, time);
            return;
        }
        let name = if row.delegated { family_of(&row.name) } else { row.name.as_str() };
        let class = category_class(row.category);
        let family = self.families.entry((name, row.delegated)).or_insert(Family { time: 0.0, kernels: 0, class });
        family.time += time;
        family.kernels += 1;
    }

    /// A module that only holds another one is told together with it.
    fn folded(&self, name: &str) -> (String, &Self) {
        let mut shown = (name.to_owned(), self);
        while let (true, Some((inner, module))) =
            (shown.1.families.is_empty() && shown.1.modules.len() == 1, shown.1.modules.first())
        {
            shown = (format!("{}.{inner}", shown.0), module);
        }
        shown
    }
}

impl ModuleMap {
    /// Draws a profile.
    pub(super) fn of(document: &ProfileDocument) -> Self {
        let by_instruction = document.modules.is_empty();
        let paths: std::collections::HashMap<i64, &str> =
            document.modules.iter().map(|module| (module.instruction, module.module_path.as_str())).collect();
        let mut whole = Module::default();
        for row in &document.breakdown.rows {
            let time = figures::number(&row.time);
            let time = if time.is_finite() { time.max(0.0) } else { 0.0 };
            let path: Vec<String> = match paths.get(&row.instruction) {
                _ if by_instruction => vec![format!("instruction {}", row.instruction)],
                Some(path) => {
                    path.split('.').filter(|part| !part.is_empty()).take(DEEPEST).map(str::to_owned).collect()
                }
                None => vec!["(module not known)".to_owned()],
            };
            whole.add(&path, row, time);
        }
        if whole.time <= 0.0 {
            return Self::default();
        }
        let mut map = Self { by_instruction, ..Self::default() };
        map.draw(&document.subject, "", &whole, 0.0, 0, whole.time);
        map.words = map.words(&whole);
        map.unlisted = map.modules.len().saturating_sub(LISTED);
        map.modules.sort_by(|left, right| right.sort_time.total_cmp(&left.sort_time));
        map.modules.truncate(LISTED);
        map
    }

    fn draw(&mut self, name: &str, path: &str, module: &Module<'_>, left: f64, level: usize, all: f64) {
        let share = module.time / all;
        self.cell(Cell {
            left,
            width: share * 100.0,
            level,
            class: "module",
            outside: false,
            name: name.to_owned(),
            title: told(name, module.time, share, module.kernels),
        });
        self.modules.push(ModuleRow {
            name: if path.is_empty() { "(the whole model)".to_owned() } else { path.to_owned() },
            time: figures::milliseconds(module.time),
            share: figures::percent(share),
            outside: figures::milliseconds(module.outside),
            kernels: module.kernels,
            sort_time: module.time,
            sort_outside: module.outside,
        });
        enum Inner<'m, 'a> {
            Module(String, &'m Module<'a>),
            Family(&'m str, bool, &'m Family),
        }
        let time = |inner: &Inner<'_, '_>| match inner {
            Inner::Module(_, module) => module.time,
            Inner::Family(_, _, family) => family.time,
        };
        let modules = module.modules.iter().map(|(name, module)| {
            let (name, module) = module.folded(name);
            Inner::Module(name, module)
        });
        let families =
            module.families.iter().map(|((name, delegated), family)| Inner::Family(name, *delegated, family));
        let mut inside: Vec<Inner<'_, '_>> = modules.chain(families).collect();
        inside.sort_by(|left, right| time(right).total_cmp(&time(left)));
        let mut left = left;
        for inner in &inside {
            match inner {
                Inner::Module(name, module) => {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.draw(name, &path, module, left, level + 1, all);
                }
                Inner::Family(name, delegated, family) => {
                    let share = family.time / all;
                    let place = if *delegated { "" } else { ", outside of the delegate" };
                    self.cell(Cell {
                        left,
                        width: share * 100.0,
                        level: level + 1,
                        class: family.class,
                        outside: !delegated,
                        name: (*name).to_owned(),
                        title: format!("{}{place}", told(name, family.time, share, family.kernels)),
                    });
                }
            }
            left += time(inner) / all * 100.0;
        }
    }

    fn cell(&mut self, cell: Cell) {
        if cell.width >= NARROWEST {
            self.levels = self.levels.max(cell.level + 1);
            self.cells.push(cell);
        }
    }

    fn words(&self, whole: &Module<'_>) -> String {
        let mut largest: Vec<&ModuleRow> = self.modules.iter().skip(1).collect();
        largest.sort_by(|left, right| right.sort_time.total_cmp(&left.sort_time));
        let largest: Vec<String> = largest.iter().take(3).map(|row| format!("{} {}", row.name, row.share)).collect();
        let what = if self.by_instruction { "instruction of the method" } else { "module of the model" };
        let largest = if largest.is_empty() { String::new() } else { format!(": {}", largest.join(", ")) };
        let of = figures::milliseconds(whole.time);
        format!("{of} in kernels by {what}{largest}. The table below has the same figures")
    }
}

fn told(name: &str, time: f64, share: f64, kernels: usize) -> String {
    let (time, share) = (figures::milliseconds(time), figures::percent(share));
    format!("{name}: {time}, {share} of the time in kernels, {}", figures::counted(kernels as u64, "kernel"))
}

#[cfg(test)]
mod tests {
    use super::super::profile_page::samples;
    use super::*;
    use crate::report::breakdown::InstructionModule;

    #[test]
    fn every_level_fits_into_the_one_above() {
        for (name, document, _) in samples::all() {
            let map = ModuleMap::of(&document);
            for cell in &map.cells {
                assert!(cell.left >= 0.0 && cell.left + cell.width <= 100.0 + 1e-6, "{name}: {cell:?}");
                let holds = |above: &Cell| {
                    above.level + 1 == cell.level
                        && above.left <= cell.left + 1e-6
                        && above.left + above.width + 1e-6 >= cell.left + cell.width
                };
                assert!(cell.level == 0 || map.cells.iter().any(holds), "{name}: {cell:?}");
            }
            assert!(map.cells.is_empty() == document.breakdown.rows.is_empty(), "{name}");
        }
    }

    #[test]
    fn modules_that_only_hold_another_are_told_with_it_and_depth_has_an_end() {
        let (_, mut document, _) = samples::all().swap_remove(0);
        let map = ModuleMap::of(&document);
        let names: Vec<&str> = map.modules.iter().map(|row| row.name.as_str()).collect();
        let expected = ["(the whole model)", "head.activation", "encoder.layers", "decoder", "decoder.psp"];
        assert_eq!(names.get(..5), Some(&expected[..]), "{names:?}");
        assert_eq!(map.modules[0].share, "100 %");
        let module_path = vec!["x"; 3000].join(".");
        document.modules = vec![InstructionModule { instruction: 0, module_path, nodes: 1 }];
        let map = ModuleMap::of(&document);
        assert!(map.levels <= DEEPEST + 2, "{}", map.levels);
        assert!(map.modules.iter().any(|row| row.name == "(module not known)"));
    }
}
