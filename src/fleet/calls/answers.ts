// Answers requests of controllers in the store: those under the id of this process, and those under its host name, where
// controllers of the reference write them.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { LeaseOnDemand } from "#store/lease-on-demand.ts";
import type { Store, StoreUpdate } from "#store/store.ts";
import { requestKey, responseKey } from "#sync/keys.ts";
import { followStore } from "../follow-store.ts";
import type { FunctionRunner } from "./functions.ts";
import { type Answer, writeAnswer } from "./message.ts";

interface AnswersOptions {
  readonly store: Store;
  /** Id of this process. */
  readonly id: string;
  readonly hostname: string;
  readonly functions: FunctionRunner;
  readonly clock: Clock;
  readonly log: Log;
}

/** Limit of remembered keys: of requests without an answer, and of answers in the store. */
const MAX_OPEN = 1_000;
/** Lease of answers: an answer that nobody fetched expires if its agent has ended. */
export const CALL_LEASE_MS = 30_000;

/** Bytes that are no message of any type. */
const NO_MESSAGE = 0x07;

export class Answers {
  readonly #options: AnswersOptions;
  readonly #lease: LeaseOnDemand;
  readonly #stop = new AbortController();
  readonly #open = new Set<string>();
  readonly #ended: Promise<void>;

  constructor(options: AnswersOptions) {
    this.#options = options;
    const { id, hostname, store } = options;
    this.#lease = new LeaseOnDemand(store, { ttlMs: CALL_LEASE_MS });
    this.#ended = followStore({
      ...options,
      // With the separator at their ends: `node1` must not answer requests to `node10`.
      prefixes: [requestKey(id, ""), requestKey(hostname, "")],
      what: "requests of controllers",
      apply: (batch) => this.#apply(batch),
      signal: this.#stop.signal,
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
    await this.#lease.revoke();
  }

  #apply({ puts, deletes }: StoreUpdate): void {
    // The answer goes with the request: the controller has it, or has ended.
    const over = deletes.filter((key) => this.#open.delete(key));
    if (over.length > 0) void this.#drop(over);
    for (const { key, value } of puts) {
      if (this.#open.has(key)) continue;
      if (this.#open.size >= MAX_OPEN) {
        this.#options.functions.counts.refused += 1;
        continue;
      }
      this.#open.add(key);
      void this.#answer(key, value);
    }
  }

  async #answer(key: string, request: Uint8Array): Promise<void> {
    const { functions, id, log } = this.#options;
    const answer = await functions.run(request);
    const value = key.startsWith(requestKey(id, "")) ? writeAnswer(answer) : plain(answer);
    if (!this.#open.has(key) || this.#stop.signal.aborted) return;
    try {
      const response = responseOf(key);
      // The first answer counts: agents may share the name of their host.
      const guards = [{ key: response, revision: 0 }];
      await this.#lease.commit([{ kind: "put", key: response, value }], { guards });
    } catch (thrown) {
      log.warn({}, `an answer to a controller was not written: ${Fault.from(thrown).message}`);
    }
    // The request may have ended while the answer was on its way.
    if (!this.#open.has(key)) await this.#drop([key]);
  }

  /** An answer that cannot be deleted now ends with the lease. */
  async #drop(requests: readonly string[]): Promise<void> {
    const ops = requests.map((key) => ({ kind: "delete", key: responseOf(key) }) as const);
    await this.#options.store.commit(ops).catch(() => undefined);
  }
}

function responseOf(request: string): string {
  const [id = "", call = ""] = request.split("/").slice(-2);
  return responseKey(id, call);
}

/**
 * An answer for controllers of the reference: the reply as it is. They know no faults, so they get bytes that no message
 * has, which end their wait with an error at once.
 */
function plain(answer: Answer): Uint8Array {
  if ("reply" in answer) return answer.reply;
  return Buffer.concat([Buffer.of(NO_MESSAGE), Buffer.from(answer.fault.message)]);
}
