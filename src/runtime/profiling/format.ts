// Converts samples of the inspector into files that `go tool pprof` opens. Loaded when a profile is requested.

import type { HeapProfiler, Profiler } from "node:inspector";
import { memoryUsage } from "node:process";
import { promisify } from "node:util";
import { getHeapSpaceStatistics } from "node:v8";
import { gzip } from "node:zlib";
import {
  Function as Func,
  Line,
  Location,
  Profile,
  Sample,
  StringTable,
  ValueType,
} from "pprof-format";

/** A place in the code. Only the name is always known; lines start at 1, and 0 means unknown. */
export interface Frame {
  readonly name: string;
  readonly file: string;
  readonly line: number;
}

type Unit = readonly [type: string, unit: string];

/** Collects samples. Samples with the same stack are merged, so that the size depends on the code, not on time. */
export class ProfileBuilder {
  readonly #strings = new StringTable();
  readonly #types: readonly ValueType[];
  readonly #functions = new Map<string, Func>();
  readonly #locations = new Map<string, Location>();
  readonly #samples = new Map<string, Sample>();

  constructor(types: readonly Unit[]) {
    this.#types = types.map((unit) => this.#type(unit));
  }

  /** `stack` begins with the innermost frame. `values` has one value per type. */
  add(stack: readonly Frame[], values: readonly number[]): void {
    const ids = stack.map((frame) => this.#location(frame));
    const key = ids.join();
    const known = this.#samples.get(key);
    if (known === undefined) {
      this.#samples.set(key, new Sample({ locationId: ids, value: [...values] }));
    } else known.value = known.value.map((sum, at) => Number(sum) + (values[at] ?? 0));
  }

  /** `wallMs` is the start of the profile in Unix milliseconds. `period` is the amount that one sample represents. */
  encode(
    wallMs: number,
    durationMs: number,
    period: { readonly of: Unit; readonly value: number },
  ): Promise<Uint8Array> {
    const profile = new Profile({
      sampleType: [...this.#types],
      sample: [...this.#samples.values()],
      location: [...this.#locations.values()],
      function: [...this.#functions.values()],
      stringTable: this.#strings,
      timeNanos: BigInt(Math.round(wallMs)) * 1_000_000n,
      durationNanos: Math.round(durationMs * 1e6),
      periodType: this.#type(period.of),
      period: period.value,
    });
    return promisify(gzip)(profile.encode());
  }

  #type([type, unit]: Unit): ValueType {
    return new ValueType({ type: this.#strings.dedup(type), unit: this.#strings.dedup(unit) });
  }

  #location({ name, file, line }: Frame): number {
    const key = JSON.stringify([name, file, line]);
    const known = this.#locations.get(key);
    if (known !== undefined) return Number(known.id);
    const id = this.#locations.size + 1;
    const lines = [new Line({ functionId: this.#function(name, file, line), line })];
    this.#locations.set(key, new Location({ id, line: lines }));
    return id;
  }

  #function(name: string, file: string, startLine: number): number {
    const key = JSON.stringify([name, file, startLine]);
    const known = this.#functions.get(key);
    if (known !== undefined) return Number(known.id);
    const id = this.#functions.size + 1;
    const [named, filename] = [this.#strings.dedup(name), this.#strings.dedup(file)];
    const shape = { id, name: named, systemName: named, filename, startLine };
    this.#functions.set(key, new Func(shape));
    return id;
  }
}

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
}

function frameOf({ functionName, url, lineNumber }: CallFrame): Frame {
  const file = url.startsWith("file://") ? decodeURI(url.slice("file://".length)) : url;
  return { name: functionName || "(anonymous)", file, line: Math.max(0, lineNumber + 1) };
}

export const CPU_TYPES = [
  ["samples", "count"],
  ["cpu", "nanoseconds"],
] as const satisfies readonly Unit[];

/** Adds a processor profile, without idle time. */
export function addCpu(to: ProfileBuilder, profile: Profiler.Profile): void {
  const stacks = new Map<number, readonly Frame[]>();
  const parents = new Map<number, number>();
  for (const { id, children } of profile.nodes)
    for (const child of children ?? []) parents.set(child, id);
  // Parents come before their children.
  for (const { id, callFrame } of profile.nodes) {
    const above = stacks.get(parents.get(id) ?? 0) ?? [];
    const root = !parents.has(id);
    stacks.set(
      id,
      root || callFrame.functionName === "(idle)" ? [] : [frameOf(callFrame), ...above],
    );
  }
  for (const [at, id] of (profile.samples ?? []).entries()) {
    const stack = stacks.get(id) ?? [];
    // Deltas may be slightly negative where the clocks of two cores differ.
    const micros = Math.max(0, profile.timeDeltas?.[at] ?? 0);
    if (stack.length > 0) to.add(stack, [1, Math.round(micros * 1_000)]);
  }
}

export const HEAP_TYPES = [["inuse_space", "bytes"]] as const satisfies readonly Unit[];

/** Adds what was allocated during sampling and is still alive. */
export function addHeap(to: ProfileBuilder, { head }: HeapProfiler.SamplingHeapProfile): void {
  const walk = (node: HeapProfiler.SamplingHeapProfileNode, above: readonly Frame[]): void => {
    const stack = node === head ? above : [frameOf(node.callFrame), ...above];
    if (node.selfSize > 0 && stack.length > 0) to.add(stack, [node.selfSize]);
    for (const child of node.children) walk(child, stack);
  };
  walk(head, []);
}

/** Adds the current use of memory: heap spaces, buffers, and other resident memory. */
export function addMemory(to: ProfileBuilder): void {
  const { rss, heapTotal, external, arrayBuffers } = memoryUsage();
  const place = (name: string, bytes: number) =>
    to.add([{ name, file: "", line: 0 }], [Math.max(0, bytes)]);
  let used = 0;
  for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
    used += space_used_size;
    place(`heap: ${space_name}`, space_used_size);
  }
  place("heap: free within", heapTotal - used);
  place("array buffers", arrayBuffers);
  place("external, array buffers aside", external - arrayBuffers);
  place("resident, none of the above", rss - heapTotal - external);
}
