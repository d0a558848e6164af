// Compacting the heap after a start: a large one becomes smaller, a small one is left alone. Each case runs in a process
// of its own, because the sizes of a heap depend on everything that a process has done.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { execPath } from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";

const MODULE = new URL("../../src/runtime/life/v8.ts", import.meta.url).href;

/** Sizes in bytes before and after, and the number of major collections that ran in between. */
interface Measured {
  readonly before: number;
  readonly after: number;
  readonly collections: number;
}

/** Fills a heap with this much that nothing holds any more, and then compacts it. */
async function compacted(megabytes: number): Promise<Measured> {
  const script = `
    import { getHeapStatistics } from "node:v8";
    import { PerformanceObserver, constants } from "node:perf_hooks";
    import { setTimeout } from "node:timers/promises";
    import { compactHeap } from ${JSON.stringify(MODULE)};
    let kept = Array.from({ length: ${megabytes} }, () => Array.from({ length: 8192 }, (_, at) => ({ at })));
    kept = undefined;
    let collections = 0;
    const observer = new PerformanceObserver((list) => {
      for (const { detail } of list.getEntries())
        if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections++;
    });
    await setTimeout(1);
    observer.observe({ entryTypes: ["gc"] });
    const before = getHeapStatistics().total_heap_size;
    compactHeap();
    const after = getHeapStatistics().total_heap_size;
    await setTimeout(1);
    console.log(JSON.stringify({ before, after, collections }));
  `;
  const { stdout } = await promisify(execFile)(execPath, ["--input-type=module", "--eval", script]);
  return JSON.parse(stdout);
}

test("a large heap that holds little is compacted", async () => {
  const { before, after } = await compacted(300);
  assert.ok(before > 60e6, `${before} bytes before`);
  assert.ok(after < before / 2, `${before} bytes before, ${after} after`);
});

test("a small heap is left alone", async () => {
  const { before, after, collections } = await compacted(0);
  assert.ok(before < 45e6, `${before} bytes before`);
  assert.equal(collections, 0);
  assert.ok(after >= before, `${before} bytes before, ${after} after`);
});
