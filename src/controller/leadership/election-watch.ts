// Follows the candidates for the leadership and the documents of the API, whether this controller leads or not. If the store
// loses its data, controllers have the only copies of these documents.

import type { Entry, Store, StoreUpdate } from "#store/store.ts";
import { API, COMPLETE, CONTROLLER_ELECTION } from "#sync/keys.ts";

const CANDIDATES = `${CONTROLLER_ELECTION}/`;

interface ElectionWatchOptions {
  readonly store: Pick<Store, "watch">;
  /** Called after each change. */
  readonly changed: () => void;
  /** Called with the reason when the store has lost published entries. */
  readonly lost: (reason: string) => void;
}

/** A candidate for the leadership. */
export interface CandidateInfo {
  readonly name: string;
  /** `host:port` of its administration port; undefined if unknown. */
  readonly address: string | undefined;
}

/**
 * The value of a candidate's key: its name and, after a space, its address. Controllers of the reference and of earlier
 * versions write only the name, and take the whole value for the name.
 */
export function candidateText({ name, address }: CandidateInfo): string {
  return address === undefined ? name : `${name} ${address}`;
}

function readCandidate(value: Uint8Array): CandidateInfo {
  const [name = "", address] = new TextDecoder().decode(value).split(" ", 2);
  return { name, address };
}

export class ElectionWatch {
  readonly #options: ElectionWatchOptions;
  readonly #stop = new AbortController();
  readonly #candidates = new Map<string, CandidateInfo & { readonly created: number }>();
  readonly #documents = new Map<string, Uint8Array>();
  /** Documents that the store lost. */
  readonly #missing = new Map<string, Uint8Array>();
  #waiting: readonly { readonly key: string; readonly seen: () => void }[] = [];

  constructor(options: ElectionWatchOptions) {
    this.#options = options;
  }

  /** The leader: the candidate with the oldest key. */
  get leader(): CandidateInfo | undefined {
    const all = [...this.#candidates.values()];
    return all.sort((a, b) => a.created - b.created)[0];
  }

  isCandidate(key: string): boolean {
    return this.#candidates.has(key);
  }

  /** Resolves when the watch has reported a candidate's key. By then, earlier losses of the store are known. */
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

  /** The lost API documents by key, until somebody writes them again. */
  get missing(): ReadonlyMap<string, Uint8Array> {
    return this.#missing;
  }

  /** Follows the store until `close`. */
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
    // Removing a policy leaves the completeness key in place. If that key is gone as well, data was lost.
    const lost = reset || deletes.includes(COMPLETE);
    for (const key of deletes) this.#remove(key, lost);
    for (const entry of puts) this.#put(entry);
    if (reset) this.#options.lost("the store lost data, or went back to an older state");
    else if (deletes.includes(COMPLETE)) this.#options.lost("the published entries were removed");
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
