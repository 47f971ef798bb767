//! Maps from ids that a program gives out one after the other.
//!
//! A table is a list with a place for every id up to the largest: looking up is indexing, and going through it
//! is in the order of the ids. Copies of a table share what is the same in both.

use std::marker::PhantomData;
use std::sync::Arc;

/// Places that copies of a table share or do not share as a whole.
const CHUNK: usize = 16;

type Chunk<V> = Arc<[Option<V>; CHUNK]>;

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
    chunks: Vec<Chunk<V>>,
    ids: PhantomData<K>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), ids: PhantomData }
    }
}

impl<K: Id, V> Table<K, V> {
    pub(crate) fn get(&self, id: K) -> Option<&V> {
        let place = id.place();
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)?.as_ref()
    }

    /// One more than the largest id that may be in it.
    pub(crate) fn end(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// Every entry, in the order of the ids.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &V> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).flatten()
    }

    /// Every id that has an entry, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = K> + '_ {
        let places = self.chunks.iter().flat_map(|chunk| chunk.iter()).enumerate();
        places.filter(|(_, entry)| entry.is_some()).map(|(place, _)| K::at(place))
    }

    /// Every id that both or one of two tables have, with what they have, but for what they share.
    pub(crate) fn beside<'t>(&'t self, other: &'t Self) -> impl Iterator<Item = (Option<&'t V>, Option<&'t V>)> {
        let chunks = 0..self.chunks.len().max(other.chunks.len());
        let differs = |chunk: &usize| match (self.chunks.get(*chunk), other.chunks.get(*chunk)) {
            (Some(one), Some(another)) => !Arc::ptr_eq(one, another),
            _ => true,
        };
        chunks
            .filter(differs)
            .flat_map(|chunk| chunk * CHUNK..(chunk + 1) * CHUNK)
            .map(|place| (self.get(K::at(place)), other.get(K::at(place))))
            .filter(|(a, b)| a.is_some() || b.is_some())
    }
}

impl<K: Id, V: Clone> Table<K, V> {
    /// Gives back what was there.
    pub(crate) fn insert(&mut self, id: K, entry: V) -> Option<V> {
        let place = id.place();
        while place >= self.end() {
            self.chunks.push(Arc::new([const { None }; CHUNK]));
        }
        let chunk = self.chunks.get_mut(place / CHUNK)?;
        Arc::make_mut(chunk).get_mut(place % CHUNK)?.replace(entry)
    }

    /// Gives back what was there.
    pub(crate) fn remove(&mut self, id: K) -> Option<V> {
        let place = id.place();
        let chunk = self.chunks.get_mut(place / CHUNK)?;
        Arc::make_mut(chunk).get_mut(place % CHUNK)?.take()
    }
}

impl<K: Id, V: Clone> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut table = Self::default();
        for (id, entry) in entries {
            table.insert(id, entry);
        }
        table
    }
}

/// Where ids stand in a list.
#[derive(Debug)]
pub(crate) struct Positions<K> {
    /// by id; `u32::MAX` for ids that are not in the list
    places: Vec<u32>,
    ids: PhantomData<K>,
}

impl<K> Default for Positions<K> {
    fn default() -> Self {
        Self { places: Vec::new(), ids: PhantomData }
    }
}

impl<K: Id> Positions<K> {
    /// The places of a list's ids, none of which comes twice. `end` is more than any of them.
    pub(crate) fn of(list: &[K], end: usize) -> Self {
        let mut places = vec![u32::MAX; end];
        for (position, id) in (0..).zip(list) {
            if let Some(place) = places.get_mut(id.place()) {
                *place = position;
            }
        }
        Self { places, ids: PhantomData }
    }

    pub(crate) fn get(&self, id: K) -> Option<usize> {
        self.places.get(id.place()).filter(|place| **place != u32::MAX).map(|place| *place as usize)
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

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
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
    fn a_copy_of_a_table_shares_what_is_the_same_and_changes_alone() {
        let table: Table<NodeId, u32> = (0..100).map(|id| (NodeId(id), id)).collect();
        let mut copy = table.clone();
        copy.insert(NodeId(40), 7);
        copy.remove(NodeId(99));
        copy.insert(NodeId(200), 8);
        assert_eq!(
            (table.get(NodeId(40)), table.get(NodeId(99)), table.get(NodeId(200))),
            (Some(&40), Some(&99), None)
        );
        let differs: Vec<_> = table.beside(&copy).filter(|(a, b)| a != b).collect();
        assert_eq!(differs, [(Some(&40), Some(&7)), (Some(&99), None), (None, Some(&8))]);
        assert!(table.beside(&copy).count() < 50, "shared chunks are not looked at");
        assert_eq!(copy.ids().last(), Some(NodeId(200)));
    }

    #[test]
    fn positions_are_places_in_a_list() {
        let positions = Positions::of(&[NodeId(5), NodeId(2)], 6);
        let found: Vec<_> = [5, 2, 3, 9].into_iter().map(|id| positions.get(NodeId(id))).collect();
        assert_eq!(found, [Some(0), Some(1), None, None]);
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = IdSet::default();
        assert!(set.insert(NodeId(64)) && !set.insert(NodeId(64)) && set.insert(NodeId(0)));
        let there: Vec<u32> = (0..200).filter(|id| set.contains(NodeId(*id))).collect();
        assert_eq!(there, [0, 64]);
    }
}
