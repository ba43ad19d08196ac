//! A table that gives each distinct value a number, so that a state of the model is a few numbers.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, RwLock};

/// Distinct values in the order of their discovery.
#[derive(Debug)]
pub struct Interner<T> {
    table: RwLock<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    numbers: HashMap<Arc<T>, u32>,
    values: Vec<Arc<T>>,
}

impl<T: Eq + Hash> Interner<T> {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            table: RwLock::new(Table {
                numbers: HashMap::new(),
                values: Vec::new(),
            }),
        }
    }

    /// The number of `value`.
    pub fn number(&self, value: T) -> u32 {
        let mut table = self.table.write().expect("no panic under the lock");
        if let Some(number) = table.numbers.get(&value) {
            return *number;
        }
        let number = u32::try_from(table.values.len()).expect("more values than could be explored");
        let value = Arc::new(value);
        table.values.push(Arc::clone(&value));
        table.numbers.insert(value, number);
        number
    }

    /// The value with this number.
    pub fn value(&self, number: u32) -> Arc<T> {
        Arc::clone(&self.table.read().expect("no panic under the lock").values[number as usize])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.read().expect("no panic under the lock").values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Eq + Hash> Default for Interner<T> {
    fn default() -> Self {
        Self::new()
    }
}
