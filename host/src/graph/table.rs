//! Maps from ids that a program gives out one after the other.
//!
//! A table is a list with a place for every id up to the largest: looking up is indexing, copying is copying
//! a list, and going through it is in the order of the ids.

use std::marker::PhantomData;

use super::{NodeId, ValueId};

/// A number that a program gives out.
pub(crate) trait Id: Copy {
    /// The place of the id in a table.
    fn place(self) -> usize;
    /// The id of a place.
    fn at(place: usize) -> Self;
}

impl Id for NodeId {
    fn place(self) -> usize {
        self.0 as usize
    }

    fn at(place: usize) -> Self {
        Self(u32::try_from(place).unwrap_or(u32::MAX))
    }
}

impl Id for ValueId {
    fn place(self) -> usize {
        self.0 as usize
    }

    fn at(place: usize) -> Self {
        Self(u32::try_from(place).unwrap_or(u32::MAX))
    }
}

/// A map from ids to something. Only ids that the program has given out belong into it: a table is as long
/// as its largest id.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    places: Vec<Option<V>>,
    ids: PhantomData<K>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { places: Vec::new(), ids: PhantomData }
    }
}

impl<K: Id, V> Table<K, V> {
    /// An empty table with room for that many ids.
    pub(crate) fn with_room(ids: usize) -> Self {
        Self { places: Vec::with_capacity(ids), ids: PhantomData }
    }

    pub(crate) fn get(&self, id: K) -> Option<&V> {
        self.places.get(id.place())?.as_ref()
    }

    /// Gives back what was there.
    pub(crate) fn insert(&mut self, id: K, entry: V) -> Option<V> {
        let place = id.place();
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        self.places.get_mut(place).and_then(|slot| slot.replace(entry))
    }

    /// Gives back what was there.
    pub(crate) fn remove(&mut self, id: K) -> Option<V> {
        self.places.get_mut(id.place())?.take()
    }

    /// One more than the largest id that may be in it.
    pub(crate) fn end(&self) -> usize {
        self.places.len()
    }

    /// Every entry, in the order of the ids.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &V> {
        self.places.iter().flatten()
    }

    /// Every id that has an entry, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = K> + '_ {
        self.places.iter().enumerate().filter(|(_, entry)| entry.is_some()).map(|(place, _)| K::at(place))
    }

    /// Every id that both or one of two tables have, with what they have.
    pub(crate) fn beside<'t>(&'t self, other: &'t Self) -> impl Iterator<Item = (Option<&'t V>, Option<&'t V>)> {
        let places = 0..self.end().max(other.end());
        places
            .map(|place| (self.get(K::at(place)), other.get(K::at(place))))
            .filter(|(a, b)| a.is_some() || b.is_some())
    }
}

impl<K: Id, V> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut table = Self::with_room(entries.size_hint().0);
        for (id, entry) in entries {
            table.insert(id, entry);
        }
        table
    }
}

/// A set of ids that a program has given out.
#[derive(Clone, Debug)]
pub(crate) struct IdSet<K> {
    words: Vec<u64>,
    ids: PhantomData<K>,
}

impl<K> Default for IdSet<K> {
    fn default() -> Self {
        Self { words: Vec::new(), ids: PhantomData }
    }
}

impl<K: Id> IdSet<K> {
    /// False when it was there already.
    pub(crate) fn insert(&mut self, id: K) -> bool {
        let (word, bit) = (id.place() / 64, 1_u64 << (id.place() % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words.get_mut(word).is_some_and(|word| {
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        })
    }

    pub(crate) fn contains(&self, id: K) -> bool {
        self.words.get(id.place() / 64).is_some_and(|word| word & (1 << (id.place() % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_map() {
        let mut table: Table<ValueId, &str> = [(ValueId(3), "c"), (ValueId(1), "a")].into_iter().collect();
        assert_eq!(table.insert(ValueId(3), "d"), Some("c"));
        assert_eq!((table.get(ValueId(3)), table.get(ValueId(2)), table.get(ValueId(9))), (Some(&"d"), None, None));
        assert_eq!(table.entries().copied().collect::<Vec<_>>(), ["a", "d"]);
        assert_eq!(
            (table.remove(ValueId(1)), table.remove(ValueId(1)), table.remove(ValueId(9))),
            (Some("a"), None, None)
        );
        let other = [(ValueId(5), "e")].into_iter().collect();
        assert_eq!(table.beside(&other).collect::<Vec<_>>(), [(Some(&"d"), None), (None, Some(&"e"))]);
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = IdSet::default();
        assert!(set.insert(NodeId(64)) && !set.insert(NodeId(64)) && set.insert(NodeId(0)));
        let there: Vec<u32> = (0..200).filter(|id| set.contains(NodeId(*id))).collect();
        assert_eq!(there, [0, 64]);
    }
}
