// The order in which leaves run. Circuits are run as by scanning them in order, again and again, running
// each leaf once all that it reads was written; so what counts is the scan in which a leaf's turn comes.

import type { Edge } from "./loops.ts";

/** `edges` must be free of cycles: the caller broke them, and this makes sure. */
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
      // Grows while it is walked: each leaf comes once.
      if (missing[to] === 0) ready.push(to);
    }
  }
  if (ready.length < leaves) throw new Error("a loop of the circuit was not broken");
  const order = Array.from({ length: leaves }, (_, at) => at);
  return order.sort((left, right) => (scans[left] ?? 0) - (scans[right] ?? 0) || left - right);
}
