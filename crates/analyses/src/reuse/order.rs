//! Counts the marks behind a place: a Fenwick tree over places in order of their creation.

/// Marks at places 0, 1 and so on.
pub struct Order {
    sums: Vec<u32>,
    next: usize,
    marks: u32,
}

impl Order {
    /// With room for this many places.
    pub fn new(room: usize) -> Self {
        Self {
            sums: vec![0; room + 1],
            next: 0,
            marks: 0,
        }
    }

    /// Whether all places are used.
    pub fn is_full(&self) -> bool {
        self.next + 1 >= self.sums.len()
    }

    /// Marks the next place, and returns it.
    pub fn push(&mut self) -> usize {
        let place = self.next;
        self.next += 1;
        self.marks += 1;
        self.change(place, |sum| sum.wrapping_add(1));
        place
    }

    /// Removes a mark.
    pub fn remove(&mut self, place: usize) {
        self.marks = self.marks.saturating_sub(1);
        self.change(place, |sum| sum.wrapping_sub(1));
    }

    /// Marks behind a place.
    pub fn behind(&self, place: usize) -> u32 {
        let mut up_to = 0_u32;
        let mut at = place + 1;
        while at > 0 {
            up_to = up_to.wrapping_add(self.sums.get(at).copied().unwrap_or(0));
            at &= at - 1;
        }
        self.marks.saturating_sub(up_to)
    }

    fn change(&mut self, place: usize, change: impl Fn(u32) -> u32) {
        let mut at = place + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = change(*sum);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_behind_a_place_are_counted() {
        let mut order = Order::new(10);
        let places: Vec<_> = (0..5).map(|_| order.push()).collect();
        order.remove(places[3]);
        assert_eq!(
            [0, 2, 4].map(|place| order.behind(places[place])),
            [3, 1, 0]
        );
        assert!(!order.is_full());
        (0..5).for_each(|_| {
            order.push();
        });
        assert!(order.is_full());
    }
}
