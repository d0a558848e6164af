// Decides which wires of a circuit are looped, that is, read the value of the previous tick. The rule (D-1): while
// there is a cycle, take the leaf with the lowest index in each strongly connected component, and make its
// wires from the rest of the component looped.
//
// That leaf, v, is reached when all lower ones have been removed, so a wire u -> v is looped exactly when u and v
// are strongly connected in the graph of the leaves from v upwards. Removing one leaf after the other would take
// quadratic time where components nest. Instead, divide and conquer over the range of indexes finds for every
// wire the index at which its ends become strongly connected: O(wires * log leaves).

/** Leaf `to` reads what leaf `from` writes. */
export interface Edge {
  readonly from: number;
  readonly to: number;
}

/** Tells for each edge whether it is looped. */
export function loopedEdges(leaves: number, edges: readonly Edge[]): readonly boolean[] {
  const looped = edges.map(({ from, to }) => from === to);
  const all = edges
    .map(({ from, to }, at): Link => ({ from, to, lowest: Math.min(from, to), at }))
    .filter(({ from, to }) => from !== to);
  const finder = new ComponentFinder(leaves);
  const cyclic = finder.split(all, 0).inner;
  // An explicit stack instead of recursion. Invariant: the ends of all links of a range become strongly connected
  // at an index of that range.
  const ranges = [{ links: cyclic, low: 0, high: leaves }];
  for (let range = ranges.pop(); range !== undefined; range = ranges.pop()) {
    const { links, low, high } = range;
    if (links.length === 0) continue;
    if (high - low === 1) {
      for (const { at } of links) if (edges[at]?.to === low) looped[at] = true;
      continue;
    }
    const middle = (low + high) >>> 1;
    const { inner, outer } = finder.split(links, middle);
    ranges.push({ links: inner, low: middle, high }, { links: outer, low, high: middle });
  }
  return looped;
}

/** The leaves that are on a cycle. */
export function leavesInCycles(leaves: number, edges: readonly Edge[]): ReadonlySet<number> {
  const links = edges.map(({ from, to }, at): Link => ({ from, to, lowest: 0, at }));
  const { inner } = new ComponentFinder(leaves).split(links, 0);
  return new Set(inner.map(({ from }) => from));
}

/** An edge whose ends may each represent a whole strongly connected component. */
interface Link {
  readonly from: number;
  readonly to: number;
  /** The lower of its original ends: the link exists in the graphs from this index downwards. */
  readonly lowest: number;
  /** Index among the edges. */
  readonly at: number;
}

/** Finds strongly connected components by Tarjan's algorithm, without recursion. */
class ComponentFinder {
  readonly #next: Link[][];
  readonly #visit: Uint32Array;
  readonly #low: Uint32Array;
  readonly #component: Int32Array;

  constructor(leaves: number) {
    this.#next = Array.from({ length: leaves }, () => []);
    this.#visit = new Uint32Array(leaves);
    this.#low = new Uint32Array(leaves);
    this.#component = new Int32Array(leaves);
  }

  /**
   * Finds the components of the graph of the leaves from `index` upwards. `inner` are the links within a
   * component; `outer` are all others, with each component contracted to one leaf.
   */
  split(
    links: readonly Link[],
    index: number,
  ): { readonly inner: readonly Link[]; readonly outer: readonly Link[] } {
    for (const { from, to } of links) {
      for (const leaf of [from, to]) {
        this.#next[leaf] = [];
        this.#visit[leaf] = 0;
        this.#component[leaf] = -1;
      }
    }
    for (const link of links) if (link.lowest >= index) this.#next[link.from]?.push(link);
    this.#walk(links);
    const inner: Link[] = [];
    const outer: Link[] = [];
    for (const link of links) {
      const from = this.#component[link.from] ?? link.from;
      const to = this.#component[link.to] ?? link.to;
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
          else if (this.#component[link.to] === -1) this.#lower(leaf, this.#visit[link.to] ?? 0);
          continue;
        }
        path.pop();
        const around = path.at(-1);
        if (around !== undefined) this.#lower(around.leaf, this.#low[leaf] ?? 0);
        if (this.#low[leaf] === this.#visit[leaf]) this.#close(leaf, open);
      }
    }
    for (const { to } of links) if (this.#component[to] === -1) this.#component[to] = to;
  }

  #lower(leaf: number, to: number): void {
    this.#low[leaf] = Math.min(this.#low[leaf] ?? to, to);
  }

  /** All leaves pushed since `leaf` form one component. */
  #close(leaf: number, open: number[]): void {
    for (let last = open.pop(); last !== undefined; last = open.pop()) {
      this.#component[last] = leaf;
      if (last === leaf) return;
    }
  }
}
