// A store within one process, for a laptop or a single sidecar.

import { Fault } from "#base/fault.ts";
import type {
  CommitOptions,
  Entry,
  Guard,
  Leadership,
  Lease,
  Op,
  Store,
  StoreUpdate,
} from "./store.ts";
import { Undelivered } from "./undelivered.ts";

/** A signal that never aborts: within one process leadership cannot be lost. */
const never = (): AbortSignal => new AbortController().signal;

export function memoryStore(): Store {
  return new MemoryStore();
}

class MemoryStore implements Store {
  readonly #entries = new Map<string, Entry>();
  readonly #leased = new Map<Lease, Set<string>>();
  readonly #watchers = new Set<Watcher>();
  #revision = 0;
  #candidates = 0;

  async list(prefix: string): Promise<{ revision: number; entries: readonly Entry[] }> {
    return { revision: this.#revision, entries: this.#under([prefix]) };
  }

  async commit(ops: readonly Op[], options: CommitOptions = {}): Promise<number | undefined> {
    const { guards = [], lease } = options;
    const holds = ({ key, revision }: Guard) =>
      (this.#entries.get(key)?.revision ?? 0) === revision;
    if (!guards.every(holds)) return undefined;
    this.#write(ops, lease !== undefined);
    for (const { key, kind } of ops) {
      // The last write owns the key: a write without a lease keeps it alive when an earlier lease ends.
      for (const keys of this.#leased.values()) keys.delete(key);
      if (lease !== undefined && kind === "put") this.#leased.get(lease)?.add(key);
    }
    return this.#revision;
  }

  async lease(): Promise<Lease> {
    const lease: Lease = {
      revoke: async () => {
        const keys = this.#leased.get(lease) ?? [];
        this.#leased.delete(lease);
        this.#write([...keys].map((key) => ({ kind: "delete", key })));
      },
      release: (key) => void this.#leased.get(lease)?.delete(key),
    };
    this.#leased.set(lease, new Set());
    return lease;
  }

  async *watch(prefixes: readonly string[], signal: AbortSignal): AsyncIterable<StoreUpdate> {
    if (signal.aborted) return;
    const watcher = new Watcher(prefixes, this.#revision, this.#under(prefixes));
    const stop = () => watcher.close();
    this.#watchers.add(watcher);
    signal.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        const batch = await watcher.next();
        if (batch === undefined) return;
        yield batch;
      }
    } finally {
      signal.removeEventListener("abort", stop);
      this.#watchers.delete(watcher);
    }
  }

  /** As in etcd, each candidate has a key, and the one whose key came first leads. */
  async lead(name: string, signal: AbortSignal, candidate = ""): Promise<Leadership> {
    const key = `${name}/${++this.#candidates}`;
    this.#write([{ kind: "put", key, value: new TextEncoder().encode(candidate) }]);
    const guard = { key, revision: this.#revision };
    const resign = async () => this.#write([{ kind: "delete", key }]);
    for await (const _ of this.watch([`${name}/`], signal)) {
      const [first] = [...this.#under([`${name}/`])].sort((a, b) => a.created - b.created);
      if (first?.key === key) return { lost: never(), guard, resign };
    }
    await resign();
    throw new Fault("CANCELLED", "no longer a candidate");
  }

  async close(): Promise<void> {
    for (const watcher of this.#watchers) watcher.close();
  }

  #write(ops: readonly Op[], leased = false): void {
    if (ops.length === 0) return;
    this.#revision += 1;
    const revision = this.#revision;
    for (const op of ops) {
      const { key } = op;
      const created = this.#entries.get(key)?.created ?? revision;
      if (op.kind === "delete") this.#entries.delete(key);
      else this.#entries.set(key, { key, value: op.value, revision, created, leased });
    }
    const keys = new Set(ops.map(({ key }) => key));
    for (const watcher of this.#watchers) watcher.changed(this.#revision, keys, this.#entries);
  }

  #under(prefixes: readonly string[]): readonly Entry[] {
    const found = [...this.#entries.values()].filter(({ key }) => within(prefixes, key));
    return found.sort((a, b) => (a.key < b.key ? -1 : 1));
  }
}

function within(prefixes: readonly string[], key: string): boolean {
  return prefixes.some((prefix) => key.startsWith(prefix));
}

/** A reader of some prefixes. Commits that arrive faster than it reads merge into one difference. */
class Watcher {
  readonly #prefixes: readonly string[];
  readonly #undelivered = new Undelivered();
  #wake: () => void = () => undefined;
  #closed = false;

  constructor(prefixes: readonly string[], revision: number, entries: readonly Entry[]) {
    this.#prefixes = prefixes;
    for (const entry of entries) this.#undelivered.put(entry);
    this.#undelivered.reached(revision, "listed");
  }

  changed(revision: number, keys: ReadonlySet<string>, entries: ReadonlyMap<string, Entry>): void {
    const ours = [...keys].filter((key) => within(this.#prefixes, key));
    if (ours.length === 0) return;
    for (const key of ours) {
      const entry = entries.get(key);
      if (entry === undefined) this.#undelivered.delete(key);
      else this.#undelivered.put(entry);
    }
    this.#undelivered.reached(revision, "changed");
    this.#wake();
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  /** The next difference, or undefined once the watch has ended. */
  async next(): Promise<StoreUpdate | undefined> {
    while (!this.#closed) {
      const batch = this.#undelivered.take();
      if (batch !== undefined) return batch;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return undefined;
  }
}
