//! Results of comparisons, one line per block.

/// Ways in which a block differs; none if it is equal.
pub type Differences = Vec<String>;

/// Lines of a block that are printed, at most.
const MOST_LINES: usize = 12;

/// Results of comparisons.
#[derive(Default)]
pub struct Blocks {
    equal: usize,
    differing: Vec<String>,
    unknown: Vec<String>,
}

impl Blocks {
    /// Records whether a block is equal.
    pub fn add(&mut self, block: &str, differences: Differences) {
        if differences.is_empty() {
            println!("equal     {block}");
            self.equal += 1;
            return;
        }
        println!("differs   {block}: {} differences", differences.len());
        for line in differences.iter().take(MOST_LINES) {
            println!("          {line}");
        }
        self.differing.push(block.to_owned());
    }

    /// Records a block that has no comparison.
    pub fn unknown(&mut self, block: &str) {
        println!("unknown   {block}");
        self.unknown.push(block.to_owned());
    }

    /// Fails if a block differs or could not be compared, or if there was none.
    pub fn finish(self) {
        println!("{} blocks are equal", self.equal);
        assert!(self.equal > 0, "nothing was compared");
        assert!(
            self.differing.is_empty() && self.unknown.is_empty(),
            "these differ: {:#?}\nthese have no comparison: {:#?}",
            self.differing,
            self.unknown
        );
    }
}
