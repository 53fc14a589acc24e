//! Edge colouring of bipartite multigraphs with as many colours as the largest degree (König 1916).

const NONE: u32 = u32::MAX;

/// A partial colouring: for every vertex and colour the edge that has it.
#[derive(Clone, Debug)]
pub(crate) struct Colouring {
    colours: usize,
    left: Vec<u32>,
    right: Vec<u32>,
    /// Ends and colour of every edge, in the order of their addition.
    pub(super) edges: Vec<(u32, u32, u32)>,
    chain: Vec<u32>,
}

impl Colouring {
    pub(crate) fn new(vertices: usize, colours: usize) -> Colouring {
        let table = vec![NONE; vertices * colours];
        Colouring { colours, left: table.clone(), right: table, edges: Vec::new(), chain: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        for (u, v, colour) in self.edges.drain(..) {
            self.left[u as usize * self.colours + colour as usize] = NONE;
            self.right[v as usize * self.colours + colour as usize] = NONE;
        }
    }

    /// Adds an edge from left vertex `u` to right vertex `v`, trying colours from `first` on; edges
    /// before it may change colour. Returns false if a vertex has no colour left.
    pub(crate) fn add(&mut self, u: usize, v: usize, first: usize) -> bool {
        let free = |table: &[u32], vertex: usize, colour: usize| table[vertex * self.colours + colour] == NONE;
        let (mut at_u, mut at_v) = (None, None);
        for step in 0..self.colours {
            let colour = (first + step) % self.colours;
            match (free(&self.left, u, colour), free(&self.right, v, colour)) {
                (true, true) => {
                    self.place(u, v, colour);
                    return true;
                }
                (true, false) => at_u = at_u.or(Some(colour)),
                (false, true) => at_v = at_v.or(Some(colour)),
                (false, false) => {}
            }
        }
        let (Some(a), Some(b)) = (at_u, at_v) else { return false };
        self.swap_from(v, a, b);
        self.place(u, v, a);
        true
    }

    fn place(&mut self, u: usize, v: usize, colour: usize) {
        let edge = self.edges.len() as u32;
        self.edges.push((u as u32, v as u32, colour as u32));
        self.left[u * self.colours + colour] = edge;
        self.right[v * self.colours + colour] = edge;
    }

    /// Exchanges colours `a` and `b` along the path that leaves right vertex `v` by `a`, to free
    /// `a` there. It arrives at left vertices by `a` only, so never at one that lacks `a`.
    fn swap_from(&mut self, v: usize, a: usize, b: usize) {
        self.chain.clear();
        let mut edge = self.right[v * self.colours + a];
        while edge != NONE {
            self.chain.push(edge);
            let (u, v, colour) = self.edges[edge as usize];
            edge = if colour as usize == a {
                self.left[u as usize * self.colours + b]
            } else {
                self.right[v as usize * self.colours + a]
            };
        }
        for edge in &self.chain {
            let (u, v, colour) = self.edges[*edge as usize];
            self.left[u as usize * self.colours + colour as usize] = NONE;
            self.right[v as usize * self.colours + colour as usize] = NONE;
        }
        for edge in &self.chain {
            let (u, v, colour) = &mut self.edges[*edge as usize];
            *colour = if *colour as usize == a { b } else { a } as u32;
            self.left[*u as usize * self.colours + *colour as usize] = *edge;
            self.right[*v as usize * self.colours + *colour as usize] = *edge;
        }
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (ix, (u, v, colour)) in self.edges.iter().enumerate() {
            assert_eq!(self.left[*u as usize * self.colours + *colour as usize], ix as u32);
            assert_eq!(self.right[*v as usize * self.colours + *colour as usize], ix as u32);
        }
        let taken = |table: &[u32]| table.iter().filter(|edge| **edge != NONE).count();
        assert_eq!((taken(&self.left), taken(&self.right)), (self.edges.len(), self.edges.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::RandomStream;

    #[test]
    fn as_many_colours_as_the_degree_always_do() {
        let mut rng = RandomStream::new(1, "colouring");
        for (vertices, degree) in [(2, 2), (3, 4), (8, 4), (16, 16), (5, 1)] {
            let mut colouring = Colouring::new(vertices, degree);
            for _ in 0..200 {
                colouring.clear();
                // A random graph in which every vertex has the full degree.
                let mut ends: Vec<usize> = (0..vertices * degree).map(|end| end / degree).collect();
                rng.shuffle(&mut ends);
                for (edge, v) in ends.iter().enumerate() {
                    assert!(colouring.add(edge / degree, *v, rng.next_below(degree as u64) as usize));
                    colouring.check();
                }
                assert!(!colouring.add(0, 0, 0), "no vertex has a colour left");
            }
        }
    }
}
