//! The red-black tree that records beyond a hole lie in (`struct rb_root`). Its shape matters: a segment is
//! compared with the records on the way to its place, and joins the first one that it can.

use super::Received;
use crate::grow::reserve_one;

/// Where a record lies in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u32);

/// No node.
const NIL: Id = Id(u32::MAX);

/// The nodes grow by so many at least.
const NODES_LEAST: usize = 8;

/// A child's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    record: Received,
    parent: Id,
    children: [Id; 2],
    red: bool,
}

/// Records by sequence number.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Nodes that hold nothing, chained by their parent.
    free: Id,
    root: Id,
    last: Id,
    len: usize,
}

impl Default for Tree {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Tree {
    pub const EMPTY: Self = Self { nodes: Vec::new(), free: NIL, root: NIL, last: NIL, len: 0 };

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn root(&self) -> Option<Id> {
        found(self.root)
    }

    /// The record with the lowest number.
    pub fn first(&self) -> Option<Id> {
        found(self.outermost(self.root, Side::Left))
    }

    /// The record with the highest.
    pub fn last(&self) -> Option<Id> {
        found(self.last)
    }

    pub fn get(&self, id: Id) -> &Received {
        &self.node(id).record
    }

    pub fn get_mut(&mut self, id: Id) -> &mut Received {
        &mut self.node_mut(id).record
    }

    pub fn child(&self, id: Id, side: Side) -> Option<Id> {
        found(self.child_of(id, side))
    }

    /// The next record in order (`rb_next`).
    pub fn next(&self, id: Id) -> Option<Id> {
        found(self.neighbour(id, Side::Right))
    }

    /// The records in order.
    pub fn iter(&self) -> impl Iterator<Item = &Received> {
        core::iter::successors(self.first(), |&id| self.next(id)).map(|id| self.get(id))
    }

    /// All records, in no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Received> {
        self.nodes.iter_mut().map(|node| &mut node.record)
    }

    /// Puts a record on a free place: below `parent`, or as the root (`rb_link_node`,
    /// `rb_insert_color`).
    pub fn insert(&mut self, place: Option<(Id, Side)>, record: Received) -> Id {
        let (parent, side) = place.unwrap_or((NIL, Side::Left));
        let id = self.take_node(Node { record, parent, children: [NIL; 2], red: true });
        if parent == NIL {
            debug_assert_eq!(self.root, NIL, "a second root");
            (self.root, self.last) = (id, id);
        } else {
            debug_assert_eq!(self.child_of(parent, side), NIL, "the place is taken");
            self.set_child(parent, side, id);
            if parent == self.last && side == Side::Right {
                self.last = id;
            }
        }
        self.len += 1;
        self.settle_red(id);
        id
    }

    /// The place of a record by its number alone (`tcp_rbtree_insert`).
    pub fn place_of(&self, record: &Received) -> Option<(Id, Side)> {
        let (mut at, mut place) = (self.root, None);
        while at != NIL {
            let side = if record.seq.before(self.get(at).seq) { Side::Left } else { Side::Right };
            place = Some((at, side));
            at = self.child_of(at, side);
        }
        place
    }

    /// Takes a record out (`rb_erase`).
    pub fn remove(&mut self, id: Id) -> Received {
        let Node { record, parent, children: [left, right], red } = *self.node(id);
        if self.last == id {
            self.last = self.neighbour(id, Side::Left);
        }
        // Who takes its place, and where a black node is missing then.
        let (heir, short, above, lost_red);
        if left == NIL || right == NIL {
            heir = if left == NIL { right } else { left };
            (short, above, lost_red) = (heir, parent, red);
        } else {
            heir = self.outermost(right, Side::Left);
            short = self.child_of(heir, Side::Right);
            lost_red = self.is_red(heir);
            above = if heir == right { heir } else { self.node(heir).parent };
            if heir != right {
                self.set_child(above, Side::Left, short);
                self.set_child(heir, Side::Right, right);
            }
            self.set_child(heir, Side::Left, left);
            self.node_mut(heir).red = red;
        }
        self.replace_child(parent, id, heir);
        if !lost_red {
            self.settle_black(short, above);
        }
        self.node_mut(id).parent = self.free;
        self.free = id;
        self.len -= 1;
        record
    }

    /// A red node has come: none may hang below another.
    fn settle_red(&mut self, mut id: Id) {
        loop {
            let parent = self.node(id).parent;
            if parent == NIL || !self.is_red(parent) {
                break;
            }
            let above = self.node(parent).parent;
            let side = self.side_of(parent, above);
            let uncle = self.child_of(above, side.other());
            if self.is_red(uncle) {
                self.node_mut(parent).red = false;
                self.node_mut(uncle).red = false;
                self.node_mut(above).red = true;
                id = above;
                continue;
            }
            if self.child_of(parent, side.other()) == id {
                self.rotate(parent, side);
                id = parent;
            }
            let parent = self.node(id).parent;
            self.node_mut(parent).red = false;
            self.node_mut(above).red = true;
            self.rotate(above, side.other());
        }
        let root = self.root;
        self.node_mut(root).red = false;
    }

    /// The ways through `short`, which hangs below `above`, are one black node short.
    fn settle_black(&mut self, mut short: Id, mut above: Id) {
        while above != NIL && !self.is_red(short) {
            let side = self.side_of(short, above);
            let mut sibling = self.child_of(above, side.other());
            if self.is_red(sibling) {
                self.node_mut(sibling).red = false;
                self.node_mut(above).red = true;
                self.rotate(above, side);
                sibling = self.child_of(above, side.other());
            }
            let near = self.child_of(sibling, side);
            let far = self.child_of(sibling, side.other());
            if !self.is_red(near) && !self.is_red(far) {
                self.node_mut(sibling).red = true;
                short = above;
                above = self.node(short).parent;
                continue;
            }
            if !self.is_red(far) {
                self.node_mut(near).red = false;
                self.node_mut(sibling).red = true;
                self.rotate(sibling, side.other());
                sibling = near;
            }
            self.node_mut(sibling).red = self.is_red(above);
            self.node_mut(above).red = false;
            let far = self.child_of(sibling, side.other());
            self.node_mut(far).red = false;
            self.rotate(above, side);
            return;
        }
        if short != NIL {
            self.node_mut(short).red = false;
        }
    }

    /// `id` goes down on `side`, and its child of the other side takes its place.
    fn rotate(&mut self, id: Id, side: Side) {
        let up = self.child_of(id, side.other());
        let parent = self.node(id).parent;
        let between = self.child_of(up, side);
        self.set_child(id, side.other(), between);
        self.replace_child(parent, id, up);
        self.set_child(up, side, id);
    }

    /// `new` hangs where `old` did.
    fn replace_child(&mut self, parent: Id, old: Id, new: Id) {
        if parent == NIL {
            self.root = new;
            if new != NIL {
                self.node_mut(new).parent = NIL;
            }
        } else {
            let side = self.side_of(old, parent);
            self.set_child(parent, side, new);
        }
    }

    fn set_child(&mut self, parent: Id, side: Side, child: Id) {
        self.node_mut(parent).children[side as usize] = child;
        if child != NIL {
            self.node_mut(child).parent = parent;
        }
    }

    fn side_of(&self, id: Id, parent: Id) -> Side {
        if self.child_of(parent, Side::Left) == id { Side::Left } else { Side::Right }
    }

    fn child_of(&self, id: Id, side: Side) -> Id {
        self.node(id).children[side as usize]
    }

    fn is_red(&self, id: Id) -> bool {
        id != NIL && self.node(id).red
    }

    fn outermost(&self, mut id: Id, side: Side) -> Id {
        let mut last = id;
        while id != NIL {
            last = id;
            id = self.child_of(id, side);
        }
        last
    }

    fn neighbour(&self, id: Id, side: Side) -> Id {
        let below = self.child_of(id, side);
        if below != NIL {
            return self.outermost(below, side.other());
        }
        let (mut id, mut parent) = (id, self.node(id).parent);
        while parent != NIL && self.child_of(parent, side) == id {
            (id, parent) = (parent, self.node(parent).parent);
        }
        parent
    }

    fn take_node(&mut self, node: Node) -> Id {
        if self.free != NIL {
            let id = self.free;
            self.free = self.node(id).parent;
            *self.node_mut(id) = node;
            return id;
        }
        reserve_one(&mut self.nodes, NODES_LEAST);
        self.nodes.push(node);
        Id(self.nodes.len() as u32 - 1)
    }

    fn node(&self, id: Id) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }
}

fn found(id: Id) -> Option<Id> {
    (id != NIL).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Memory;
    use crate::packet::seq::Seq;
    use crate::rng::Rng;

    fn record(seq: u32) -> Received {
        Received::new(Seq(seq), Seq(seq + 1), 1, Memory::Cut, 52, false, 896)
    }

    /// Black nodes on every way down; panics where they differ or two red nodes follow each other.
    fn black_height(tree: &Tree, id: Id) -> u32 {
        if id == NIL {
            return 1;
        }
        let heights = [Side::Left, Side::Right].map(|side| {
            let child = tree.child_of(id, side);
            assert!(!(tree.is_red(id) && tree.is_red(child)), "two red nodes");
            assert!(child == NIL || tree.node(child).parent == id, "parent");
            black_height(tree, child)
        });
        assert_eq!(heights[0], heights[1], "black nodes");
        heights[0] + u32::from(!tree.is_red(id))
    }

    #[test]
    fn it_stays_in_order_and_in_balance() {
        let mut rng = Rng::stream(7, 0);
        let (mut tree, mut model) = (Tree::default(), Vec::new());
        for _ in 0..4_000 {
            let seq = rng.below(300) as u32;
            match model.binary_search(&seq) {
                Ok(at) => {
                    let mut id = tree.first().expect("it has records");
                    while tree.get(id).seq.0 != seq {
                        id = tree.next(id).expect("it is there");
                    }
                    assert_eq!(tree.remove(id).seq.0, seq);
                    model.remove(at);
                }
                Err(at) => {
                    let new = record(seq);
                    tree.insert(tree.place_of(&new), new);
                    model.insert(at, seq);
                }
            }
            black_height(&tree, tree.root);
            let held: Vec<u32> = tree.iter().map(|one| one.seq.0).collect();
            assert_eq!((&held, tree.len()), (&model, model.len()));
            assert_eq!(tree.last().map(|id| tree.get(id).seq.0), model.last().copied());
        }
    }

    #[test]
    fn growing_at_the_end_has_the_known_shape() {
        // Seven in order: two levels of black below the root, as every textbook draws it.
        let mut tree = Tree::default();
        for seq in 1..=7 {
            let new = record(seq);
            tree.insert(tree.place_of(&new), new);
        }
        let root = tree.root().expect("a root");
        assert_eq!(tree.get(root).seq.0, 2);
        let right = tree.child(root, Side::Right).expect("a child");
        assert_eq!((tree.get(right).seq.0, tree.is_red(right)), (4, true));
    }
}
