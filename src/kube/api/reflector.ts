// Follows all objects of a kind: lists them, then watches for changes. A watch that breaks resumes from the last version. If
// the server no longer has that version, the objects are listed again and compared with the known ones. So the reader is
// told of changes only, and keeps the last state while the server is away.

import { setImmediate } from "node:timers/promises";
import { pause } from "#base/async/wait.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { KubeClient, Selection } from "./client.ts";
import { eventFault } from "./error-replies.ts";
import {
  asObject,
  fieldOf,
  type KubeObject,
  keyOf,
  pathOf,
  type Resource,
  textOf,
} from "./objects.ts";

/** Changed objects by key (`namespace/name`). */
export interface Changes<T> {
  readonly puts: ReadonlyMap<string, T>;
  readonly deletes: readonly string[];
}

/** True if the known objects are up to date. */
export type Following =
  | { readonly state: "starting" }
  | { readonly state: "following" }
  /** The known objects may be out of date; another attempt follows. */
  | { readonly state: "away"; readonly fault: Fault };

export interface ReflectorOptions<T> {
  readonly client: KubeClient;
  readonly resource: Resource;
  readonly selection?: Selection;
  /** Reduces an object to the part that is kept; undefined leaves it out. Called for each new version. */
  readonly keep: (object: KubeObject) => T | undefined;
  /** Called after the first list, even when it is empty, and after each change. */
  readonly changed: (changes: Changes<T>) => void;
  /** Called when the state changes, and for each new fault. */
  readonly followed?: (following: Following) => void;
  readonly clock: Clock;
  readonly chance: Chance;
  /** The most objects that are kept; 100 000 by default. More objects are a fault, and the known ones stay. */
  readonly maxObjects?: number;
}

/** Numbers of events, for metrics and tests. */
export interface ReflectorCounts {
  /** Lists that were started, including the first one. */
  lists: number;
  /** Watches that were started. */
  watches: number;
  /** Events, including bookmarks. */
  events: number;
}

interface Known<T> {
  readonly uid: string;
  readonly version: string;
  /** Undefined for an object that is left out. */
  readonly value: T | undefined;
}

const MAX_OBJECTS = 100_000;
/** Milliseconds before another attempt: the first pause, the longest one, and their random share. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const JITTER = 0.5;
/**
 * Shortest watch, in seconds. The actual length is random, up to twice as long, so that the watches of many processes do not
 * end together.
 */
const WATCH_S = 300;
/** Milliseconds by which the server may end a watch late before it counts as away. */
const LATE_MS = 15_000;
/** A watch that ends sooner without an event counts as a failure. */
const SHORT_MS = 1_000;
/** Objects that are compared before the event loop turns. */
const SLICE = 500;

export class Reflector<T> {
  readonly counts: ReflectorCounts = { lists: 0, watches: 0, events: 0 };
  readonly #options: ReflectorOptions<T>;
  readonly #known = new Map<string, Known<T>>();
  readonly #stop = new AbortController();
  /** The version from which the next watch resumes; empty to list the objects first. */
  #version = "";
  #following: Following = { state: "starting" };
  #ended: Promise<void> = Promise.resolve();

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
  }

  get following(): Following {
    return this.#following;
  }

  get size(): number {
    return this.#known.size;
  }

  get(key: string): T | undefined {
    return this.#known.get(key)?.value;
  }

  *entries(): Generator<readonly [string, T]> {
    for (const [key, { value }] of this.#known) if (value !== undefined) yield [key, value];
  }

  /**
   * Lists the objects, then follows them until `close`.
   * @throws Fault when they cannot be listed; nothing is followed then
   */
  async start(): Promise<void> {
    await this.#list();
    this.#report({ state: "following" });
    this.#ended = this.#run();
  }

  /** Like `start`, but retries while the API server is away, and never throws. */
  follow(): void {
    this.#ended = this.#run();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { clock, chance } = this.#options;
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted; ) {
      try {
        if (this.#version === "") await this.#list();
        if (await this.#watch()) failures = 0;
        else failures += 1;
      } catch (thrown) {
        if (signal.aborted) return;
        const fault = faultOf(thrown);
        if (fault.code === "OUT_OF_RANGE") this.#version = "";
        // An expired version is not a failure of the server: list again at once, but only once.
        if (fault.code !== "OUT_OF_RANGE" || failures > 0) this.#report({ state: "away", fault });
        failures += 1;
        if (fault.code === "OUT_OF_RANGE" && failures === 1) continue;
      }
      if (failures > 0) await pause(pauseMs(failures, chance()), clock, signal);
    }
  }

  async #list(): Promise<void> {
    const { client, resource, selection = {}, maxObjects = MAX_OBJECTS } = this.#options;
    const { signal } = this.#stop;
    this.counts.lists += 1;
    const gone = new Set(this.#known.keys());
    const puts = new Map<string, Known<T>>();
    let version = "";
    let from = "";
    let count = 0;
    do {
      const page = await client.page(resource, selection, from, signal);
      count += page.items.length;
      if (count > maxObjects) throw tooMany(resource, maxObjects);
      for (const [at, object] of page.items.entries()) {
        if (at % SLICE === SLICE - 1) await setImmediate();
        const key = keyOf(object);
        gone.delete(key);
        if (this.#differs(key, object)) puts.set(key, this.#reduced(object));
      }
      version = page.resourceVersion;
      from = page.next;
    } while (from !== "");
    signal.throwIfAborted();
    this.#version = version;
    this.#apply(puts, [...gone], true);
  }

  /** Returns whether the watch worked. Rejects when the server refuses it or the connection breaks. */
  async #watch(): Promise<boolean> {
    const { client, resource, selection = {}, clock, chance } = this.#options;
    const seconds = Math.round(WATCH_S * (1 + chance()));
    const abort = new AbortController();
    const { signal } = this.#stop;
    const end = () => abort.abort();
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const disarm = clock.alarm(seconds * 1_000 + LATE_MS, end);
    const began = clock.now();
    const before = this.counts.events;
    this.counts.watches += 1;
    try {
      const lines = await client.watch(resource, {
        ...selection,
        resourceVersion: this.#version,
        seconds,
        signal: abort.signal,
      });
      this.#report({ state: "following" });
      for await (const line of lines) this.#event(line);
    } catch (thrown) {
      // The server should have ended the watch before; the next watch shows whether it is reachable.
      const isLate = abort.signal.aborted && !signal.aborted;
      if (!isLate) throw thrown;
    } finally {
      disarm();
      signal.removeEventListener("abort", end);
    }
    return this.counts.events > before || clock.now() - began >= SHORT_MS;
  }

  #event(line: string): void {
    const { resource, maxObjects = MAX_OBJECTS } = this.#options;
    const event: unknown = JSON.parse(line);
    this.counts.events += 1;
    const type = textOf(event, "type");
    const content = fieldOf(event, "object");
    if (type === "ERROR") throw eventFault(`watch ${pathOf(resource)}`, content);
    if (type === "BOOKMARK") {
      this.#version = textOf(fieldOf(content, "metadata"), "resourceVersion") || this.#version;
      return;
    }
    const object = asObject(content);
    const key = keyOf(object);
    if (type === "DELETED") this.#apply(new Map(), [key]);
    else if (!this.#known.has(key) && this.#known.size >= maxObjects)
      throw tooMany(resource, maxObjects);
    else if (this.#differs(key, object)) this.#apply(new Map([[key, this.#reduced(object)]]), []);
    this.#version = object.metadata.resourceVersion ?? this.#version;
  }

  /** True if this is a new version, or a new object of the same name. */
  #differs(key: string, { metadata }: KubeObject): boolean {
    const known = this.#known.get(key);
    const { uid = "", resourceVersion = "" } = metadata;
    return known === undefined || known.uid !== uid || known.version !== resourceVersion;
  }

  #reduced(object: KubeObject): Known<T> {
    const { uid = "", resourceVersion: version = "" } = object.metadata;
    return { uid, version, value: this.#options.keep(object) };
  }

  /** Calls the reader, unless nothing changed for it. */
  #apply(puts: ReadonlyMap<string, Known<T>>, gone: readonly string[], always = false): void {
    const told = new Map<string, T>();
    const deletes: string[] = [];
    const lose = (key: string) => {
      if (this.#known.get(key)?.value !== undefined) deletes.push(key);
    };
    for (const key of gone) {
      lose(key);
      this.#known.delete(key);
    }
    for (const [key, known] of puts) {
      if (known.value === undefined) lose(key);
      else told.set(key, known.value);
      this.#known.set(key, known);
    }
    if (always || told.size > 0 || deletes.length > 0) {
      this.#options.changed({ puts: told, deletes });
    }
  }

  #report(following: Following): void {
    const before = this.#following;
    this.#following = following;
    const isSame =
      before.state === following.state &&
      (following.state !== "away" ||
        (before.state === "away" && before.fault.message === following.fault.message));
    if (!isSame) this.#options.followed?.(following);
  }
}

function pauseMs(failures: number, chance: number): number {
  const ms = Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LONGEST_PAUSE_MS);
  return ms * (1 - JITTER * chance);
}

/** Errors other than Faults come from replies that cannot be parsed. */
function faultOf(thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  const message = "the API server sent something that is not an event or a list";
  return new Fault("UNAVAILABLE", message, { cause: thrown });
}

function tooMany(resource: Resource, maxObjects: number): Fault {
  const message = `${pathOf(resource)}: more than ${maxObjects} objects`;
  return new Fault("RESOURCE_EXHAUSTED", message);
}
