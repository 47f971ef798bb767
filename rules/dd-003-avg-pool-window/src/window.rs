//! Where the windows of a pooling lie, and what each divides by.

/// One dimension of a pooling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    /// entries of the tensor
    pub(crate) size: i64,
    pub(crate) kernel: i64,
    pub(crate) stride: i64,
    pub(crate) padding: i64,
    /// windows
    pub(crate) output: i64,
    /// windows without ceil mode
    pub(crate) floor_output: i64,
}

/// How many entries count, with how many that do not around them.
pub(crate) struct Ones {
    pub(crate) before: i64,
    pub(crate) ones: i64,
    pub(crate) after: i64,
}

impl Axis {
    /// `None` when torch would refuse the numbers.
    pub(crate) fn new(size: i64, kernel: i64, stride: i64, padding: i64, ceil: bool) -> Option<Self> {
        const MOST: i64 = 1 << 24;
        let sensible = (1..=MOST).contains(&size)
            && (1..=MOST).contains(&kernel)
            && (1..=MOST).contains(&stride)
            && (0..=kernel / 2).contains(&padding)
            && size + 2 * padding >= kernel;
        if !sensible {
            return None;
        }
        let room = size + 2 * padding - kernel;
        let floor_output = room / stride + 1;
        let mut output = floor_output;
        if ceil {
            output = (room + stride - 1) / stride + 1;
            // A window that would begin in the padding behind the tensor is dropped.
            if (output - 1) * stride >= size + padding {
                output -= 1;
            }
        }
        Some(Self { size, kernel, stride, padding, output, floor_output })
    }

    /// From the first entry of the first window to the last entry of the last one.
    fn reach(&self) -> i64 {
        (self.output - 1) * self.stride + self.kernel
    }

    /// Entries to add behind, so that every window lies inside.
    pub(crate) fn right(&self) -> i64 {
        (self.reach() - self.size - self.padding).max(0)
    }

    /// The entries that count: those of the tensor, or with its padding, as far as windows reach.
    pub(crate) fn ones(&self, inside: bool) -> Ones {
        let (before, counted) = if inside { (self.padding, self.size) } else { (0, self.size + 2 * self.padding) };
        let ones = counted.min(self.reach() - before);
        Ones { before, ones, after: self.reach() - before - ones }
    }

    /// True when every window has all its entries counted.
    fn is_whole(&self, counts_padding: bool) -> bool {
        let ones = self.ones(!counts_padding);
        ones.before == 0 && ones.after == 0
    }
}

/// A pooling over a plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pool {
    pub(crate) rows: Axis,
    pub(crate) columns: Axis,
    pub(crate) counts_padding: bool,
    pub(crate) divisor: Option<i64>,
}

impl Pool {
    pub(crate) fn padding(&self) -> [i64; 2] {
        [self.rows.padding, self.columns.padding]
    }

    /// True when padding is needed for every window to lie inside.
    pub(crate) fn needs_pad(&self) -> bool {
        [self.rows, self.columns].iter().any(|axis| axis.padding > 0 || axis.right() > 0)
    }

    pub(crate) fn ceil_has_no_effect(&self) -> bool {
        [self.rows, self.columns].iter().all(|axis| axis.output == axis.floor_output)
    }

    /// True when every window divides by its full size.
    pub(crate) fn divides_by_the_window(&self) -> bool {
        match self.divisor {
            Some(divisor) => divisor == self.rows.kernel * self.columns.kernel,
            None => self.rows.is_whole(self.counts_padding) && self.columns.is_whole(self.counts_padding),
        }
    }

    /// True when XNNPACK takes the pooling, with the flag for ceil mode or without.
    pub(crate) fn is_delegated(&self, ceil: bool) -> bool {
        let own_divisor = self.divisor.is_some_and(|divisor| divisor != self.rows.kernel * self.columns.kernel);
        let counted = self.padding() != [0, 0] && (self.counts_padding || self.divisor.is_some());
        !ceil && self.ceil_has_no_effect() && !own_divisor && !counted
    }

    pub(crate) fn describe(&self) -> String {
        let mut what = Vec::new();
        if self.padding() != [0, 0] && self.counts_padding {
            what.push("padding that counts".to_owned());
        }
        if !self.ceil_has_no_effect() {
            what.push("windows beyond the tensor".to_owned());
        }
        if let Some(divisor) = self.divisor {
            what.push(format!("divisor {divisor}"));
        }
        if what.is_empty() {
            return "the pooling does the same without ceil mode".to_owned();
        }
        format!("average pooling with {} runs over a tensor that is padded first", what.join(" and "))
    }
}
