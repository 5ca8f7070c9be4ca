//! Linear least squares with few columns.

/// Ridge, relative to the diagonal. It keeps the matrix regular when two columns are equal.
const RIDGE: f64 = 1e-9;

/// Columns of equal length with mean 0, and the products of all pairs.
pub struct Design {
    columns: Vec<Vec<f64>>,
    products: Vec<Vec<f64>>,
}

/// Subtracts the mean.
pub fn centre(values: &mut [f64]) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter_mut().for_each(|value| *value -= mean);
}

/// Sum of products.
pub fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Design {
    /// Omits columns that do not vary.
    pub fn new(columns: impl IntoIterator<Item = Vec<f64>>) -> Self {
        let columns = columns.into_iter().map(|mut column| {
            centre(&mut column);
            column
        });
        let columns: Vec<_> = columns.filter(|of| product(of, of) > 1e-9).collect();
        let products = columns
            .iter()
            .map(|a| columns.iter().map(|b| product(a, b)).collect());
        let products = products.collect();
        Self { columns, products }
    }

    /// Coefficients; 0 for all columns but `kept`.
    fn solve(&self, kept: &[usize], with_y: &[f64]) -> Vec<f64> {
        let mut rows: Vec<Vec<f64>> = kept
            .iter()
            .map(|i| {
                let products = kept.iter().map(|j| {
                    let ridge = if i == j { 1.0 + RIDGE } else { 1.0 };
                    self.products[*i][*j] * ridge
                });
                products.chain([with_y[*i]]).collect()
            })
            .collect();
        // Gauss-Jordan elimination. The matrix is symmetric and positive definite, so it needs no exchange of rows.
        for pivot in 0..rows.len() {
            let by = rows[pivot].clone();
            for (at, row) in rows.iter_mut().enumerate() {
                if at != pivot {
                    let factor = row[pivot] / by[pivot];
                    row.iter_mut()
                        .zip(&by)
                        .for_each(|(of, by)| *of -= factor * by);
                }
            }
        }
        let mut solution = vec![0.0; self.columns.len()];
        for (at, row) in rows.iter().enumerate() {
            solution[kept[at]] = row[kept.len()] / row[at];
        }
        solution
    }

    /// The columns that raise `y`, and the part of `y` that they explain. Columns with negative coefficients are dropped, the most negative
    /// first. Load can only raise latency, and a client that waits for replies sends less when latency rises.
    pub fn raising(self, y: &[f64]) -> (Self, Vec<f64>) {
        let with_y: Vec<_> = self.columns.iter().map(|of| product(of, y)).collect();
        let mut kept: Vec<_> = (0..self.columns.len()).collect();
        let coefficients = loop {
            let coefficients = self.solve(&kept, &with_y);
            let least = kept
                .iter()
                .copied()
                .min_by(|a, b| coefficients[*a].total_cmp(&coefficients[*b]));
            match least.filter(|least| coefficients[*least] < 0.0) {
                Some(least) => kept.retain(|column| *column != least),
                None => break coefficients,
            }
        };
        let fitted = self.sum(&coefficients, y.len());
        let columns = self.columns.into_iter().enumerate();
        let columns = columns
            .filter(|(column, _)| kept.contains(column))
            .map(|(_, of)| of);
        (Self::new(columns), fitted)
    }

    fn sum(&self, coefficients: &[f64], length: usize) -> Vec<f64> {
        let mut sum = vec![0.0; length];
        for (column, coefficient) in self.columns.iter().zip(coefficients) {
            let add = |(of, value): (&mut f64, &f64)| *of += coefficient * value;
            sum.iter_mut().zip(column).for_each(add);
        }
        sum
    }

    /// The residuals of `y`, which has mean 0, after regression on all columns.
    pub fn residuals(&self, y: &[f64]) -> Vec<f64> {
        let with_y: Vec<_> = self.columns.iter().map(|of| product(of, y)).collect();
        let all: Vec<_> = (0..self.columns.len()).collect();
        let fitted = self.sum(&self.solve(&all, &with_y), y.len());
        y.iter().zip(fitted).map(|(y, fitted)| y - fitted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> [Vec<f64>; 3] {
        let of = |f: fn(f64) -> f64| (0..50).map(|t| f(f64::from(t))).collect();
        [
            of(|t| (t * 0.7).sin()),
            of(|t| (t * 1.3).cos()),
            of(|t| (t * 0.7).sin() + 0.1 * (t * 2.9).sin()),
        ]
    }

    fn y(columns: &[Vec<f64>; 3], by: [f64; 3]) -> Vec<f64> {
        let at = |t: usize| (0..3).map(|i| by[i] * columns[i][t]).sum();
        let mut y: Vec<f64> = (0..50).map(at).collect();
        centre(&mut y);
        y
    }

    #[test]
    fn nothing_is_left_of_a_sum_of_columns() {
        let columns = columns();
        let y = y(&columns, [1.0, -2.0, 0.5]);
        let left = Design::new(columns).residuals(&y);
        assert!(left.iter().all(|value| value.abs() < 1e-5), "{left:?}");
    }

    #[test]
    fn what_lowers_is_no_control() {
        let columns = columns();
        let y = y(&columns, [1.0, -2.0, 0.0]);
        let (kept, fitted) = Design::new(columns).raising(&y);
        assert!(kept.columns.len() < 3);
        assert!(product(&fitted, &y) > 0.0);
        let flat = Design::new([vec![1.0; 4]]);
        assert!(flat.columns.is_empty());
        assert_eq!(
            flat.residuals(&[1.0, -1.0, 0.0, 0.0]),
            [1.0, -1.0, 0.0, 0.0]
        );
    }
}
