// Where loops of a circuit are broken. The rule: while there is a loop, take the leaf of lowest index in each
// knot of loops (strongly connected component), and let it read what the rest of the knot wrote in the tick
// before (D-1).
//
// That leaf, v, is met when all lower ones have been broken off, so a wire u -> v is looped exactly when u and v
// are strongly connected among the leaves from v upwards. Taking knots apart one leaf after the other would
// take quadratic time where they nest; instead, all wires are sorted by the index at which their ends become
// strongly connected, halving the range of indices: O(wires * log leaves).

/** Leaf `to` reads what leaf `from` writes. */
export interface Edge {
  readonly from: number;
  readonly to: number;
}

/** For each edge whether it is looped. */
export function loopedEdges(leaves: number, edges: readonly Edge[]): readonly boolean[] {
  const looped = edges.map(({ from, to }) => from === to);
  const all = edges
    .map(({ from, to }, at): Link => ({ from, to, lowest: Math.min(from, to), at }))
    .filter(({ from, to }) => from !== to);
  const knots = new Knots(leaves);
  const inKnots = knots.split(all, 0).inner;
  // Stack instead of recursion. Invariant: the ends of all links of a range join at an index of the range.
  const ranges = [{ links: inKnots, low: 0, high: leaves }];
  for (let range = ranges.pop(); range !== undefined; range = ranges.pop()) {
    const { links, low, high } = range;
    if (links.length === 0) continue;
    if (high - low === 1) {
      for (const { at } of links) if (edges[at]?.to === low) looped[at] = true;
      continue;
    }
    const middle = (low + high) >>> 1;
    const { inner, outer } = knots.split(links, middle);
    ranges.push({ links: inner, low: middle, high }, { links: outer, low, high: middle });
  }
  return looped;
}

/** An edge whose ends may stand for whole knots. */
interface Link {
  readonly from: number;
  readonly to: number;
  /** The lower of its original ends: from there downwards the link is there. */
  readonly lowest: number;
  /** Place among the edges. */
  readonly at: number;
}

/** Finds knots by Tarjan's algorithm, without recursion. */
class Knots {
  readonly #next: Link[][];
  readonly #visit: Uint32Array;
  readonly #low: Uint32Array;
  readonly #knot: Int32Array;

  constructor(leaves: number) {
    this.#next = Array.from({ length: leaves }, () => []);
    this.#visit = new Uint32Array(leaves);
    this.#low = new Uint32Array(leaves);
    this.#knot = new Int32Array(leaves);
  }

  /**
   * Knots of the links that are there from index `from` upwards. `inner` are the links within them, `outer`
   * all others, each knot drawn together to one leaf.
   */
  split(
    links: readonly Link[],
    index: number,
  ): { readonly inner: readonly Link[]; readonly outer: readonly Link[] } {
    for (const { from, to } of links) {
      for (const leaf of [from, to]) {
        this.#next[leaf] = [];
        this.#visit[leaf] = 0;
        this.#knot[leaf] = -1;
      }
    }
    for (const link of links) if (link.lowest >= index) this.#next[link.from]?.push(link);
    this.#walk(links);
    const inner: Link[] = [];
    const outer: Link[] = [];
    for (const link of links) {
      const from = this.#knot[link.from] ?? link.from;
      const to = this.#knot[link.to] ?? link.to;
      if (from === to) inner.push(link);
      else outer.push({ ...link, from, to });
    }
    return { inner, outer };
  }

  #walk(links: readonly Link[]): void {
    let count = 0;
    const open: number[] = [];
    for (const { from: start } of links) {
      if (this.#visit[start] !== 0) continue;
      const path = [{ leaf: start, next: 0 }];
      for (let step = path.at(-1); step !== undefined; step = path.at(-1)) {
        const { leaf } = step;
        if (step.next === 0) {
          count += 1;
          this.#visit[leaf] = count;
          this.#low[leaf] = count;
          open.push(leaf);
        }
        const link = this.#next[leaf]?.[step.next];
        step.next += 1;
        if (link !== undefined) {
          if (this.#visit[link.to] === 0) path.push({ leaf: link.to, next: 0 });
          else if (this.#knot[link.to] === -1) this.#lower(leaf, this.#visit[link.to] ?? 0);
          continue;
        }
        path.pop();
        const around = path.at(-1);
        if (around !== undefined) this.#lower(around.leaf, this.#low[leaf] ?? 0);
        if (this.#low[leaf] === this.#visit[leaf]) this.#close(leaf, open);
      }
    }
    for (const { to } of links) if (this.#knot[to] === -1) this.#knot[to] = to;
  }

  #lower(leaf: number, to: number): void {
    this.#low[leaf] = Math.min(this.#low[leaf] ?? to, to);
  }

  /** All that was opened since `leaf` is one knot. */
  #close(leaf: number, open: number[]): void {
    for (let last = open.pop(); last !== undefined; last = open.pop()) {
      this.#knot[last] = leaf;
      if (last === leaf) return;
    }
  }
}
