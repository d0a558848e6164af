// The order in which leaves run. It is the order of repeated scans over the leaves, each of which runs the leaves
// whose inputs have all been written; so leaves are sorted by the scan in which they run, then by index.

import type { Edge } from "./loops.ts";

/** `edges` must be free of cycles. Throws when they are not. */
export function orderOf(leaves: number, edges: readonly Edge[]): readonly number[] {
  const readers: number[][] = Array.from({ length: leaves }, () => []);
  const missing = new Uint32Array(leaves);
  for (const { from, to } of edges) {
    readers[from]?.push(to);
    missing[to] = (missing[to] ?? 0) + 1;
  }
  const scans = new Uint32Array(leaves);
  const ready = Array.from({ length: leaves }, (_, at) => at).filter((at) => missing[at] === 0);
  for (const from of ready) {
    for (const to of readers[from] ?? []) {
      const scan = (scans[from] ?? 0) + (from > to ? 1 : 0);
      scans[to] = Math.max(scans[to] ?? 0, scan);
      missing[to] = (missing[to] ?? 0) - 1;
      // `ready` grows while it is iterated; each leaf enters it once.
      if (missing[to] === 0) ready.push(to);
    }
  }
  if (ready.length < leaves) throw new Error("the circuit has a cycle that is not looped");
  const order = Array.from({ length: leaves }, (_, at) => at);
  return order.sort((left, right) => (scans[left] ?? 0) - (scans[right] ?? 0) || left - right);
}
