// A controller's view of the store, whether it leads or not: which controllers are candidates, and the documents of
// the API. A store that loses its data loses the documents for good, unless a controller still has them.

import type { Entry, Store, StoreUpdate } from "#store/store.ts";
import { API, COMPLETE, CONTROLLER_ELECTION } from "#sync/keys.ts";

const CANDIDATES = `${CONTROLLER_ELECTION}/`;

interface SurveyOptions {
  readonly store: Pick<Store, "watch">;
  /** Called after each change. */
  readonly changed: () => void;
  /** Called when entries that a leader published are no longer in the store, with the reason. */
  readonly lost: (reason: string) => void;
}

/** A candidate as the others see it. */
export interface Named {
  readonly name: string;
  /** `host:port` where it serves administration; undefined where it does not say. */
  readonly address: string | undefined;
}

/**
 * The value of a candidate's key: its name and, behind a blank, its address. Controllers of the reference and of earlier
 * versions write the name alone, and show the whole value as the name.
 */
export function candidateText({ name, address }: Named): string {
  return address === undefined ? name : `${name} ${address}`;
}

function readCandidate(value: Uint8Array): Named {
  const [name = "", address] = new TextDecoder().decode(value).split(" ", 2);
  return { name, address };
}

export class Survey {
  readonly #options: SurveyOptions;
  readonly #stop = new AbortController();
  readonly #candidates = new Map<string, Named & { readonly created: number }>();
  readonly #documents = new Map<string, Uint8Array>();
  /** Documents that the store lost. */
  readonly #missing = new Map<string, Uint8Array>();
  #waiting: readonly { readonly key: string; readonly seen: () => void }[] = [];

  constructor(options: SurveyOptions) {
    this.#options = options;
  }

  /** The candidate that leads: the one whose key came first. */
  get leader(): Named | undefined {
    const all = [...this.#candidates.values()];
    return all.sort((a, b) => a.created - b.created)[0];
  }

  isCandidate(key: string): boolean {
    return this.#candidates.has(key);
  }

  /** Resolves when the key of a candidate has been seen: losses of the store before that write are known by then. */
  seen(key: string, signal: AbortSignal): Promise<void> {
    if (this.#candidates.has(key) || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener("abort", done);
        this.#waiting = this.#waiting.filter((each) => each.seen !== done);
        resolve();
      };
      signal.addEventListener("abort", done, { once: true });
      this.#waiting = [...this.#waiting, { key, seen: done }];
    });
  }

  /** The documents of the API that the store lost, by key; they are known until somebody writes them again. */
  get missing(): ReadonlyMap<string, Uint8Array> {
    return this.#missing;
  }

  /** Follows the store until `close`. Rejects when the store refuses that. */
  async follow(): Promise<void> {
    const { store, changed } = this.#options;
    const prefixes = [CANDIDATES, API, COMPLETE];
    for await (const batch of store.watch(prefixes, this.#stop.signal)) {
      this.#note(batch);
      changed();
    }
  }

  close(): void {
    this.#stop.abort();
  }

  #note({ puts, deletes, reset = false }: StoreUpdate): void {
    // A person who removes a policy leaves the key that marks the set as complete: where that is gone as well, data was
    // lost.
    const lost = reset || deletes.includes(COMPLETE);
    for (const key of deletes) this.#remove(key, lost);
    for (const entry of puts) this.#put(entry);
    if (reset) this.#options.lost("the store lost data, or went back to an older state");
    else if (deletes.includes(COMPLETE)) this.#options.lost("what was published was removed");
    for (const { key, seen } of this.#waiting) if (this.#candidates.has(key)) seen();
  }

  #remove(key: string, lost: boolean): void {
    this.#candidates.delete(key);
    const document = this.#documents.get(key);
    this.#documents.delete(key);
    if (lost && document !== undefined) this.#missing.set(key, document);
  }

  #put({ key, value, created }: Entry): void {
    if (key.startsWith(CANDIDATES)) {
      this.#candidates.set(key, { ...readCandidate(value), created });
    } else if (key.startsWith(API)) {
      this.#missing.delete(key);
      this.#documents.set(key, value);
    }
  }
}
