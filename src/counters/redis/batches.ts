// Batches the requests of one turn of the event loop into one call of their script. A call for each request would cost both
// this process and Redis several times as much.

import { type ReplyReceiver, receiveAll, type UNDECIDABLE } from "../requests.ts";
import type { Script, ScriptRequest } from "./keys.ts";

/** Most keys of one call: bounds the time for which Redis serves nobody else. */
const MAX_KEYS = 64;
/**
 * While this many calls are under way, further requests wait for the next batch. Redis handles calls one after the other,
 * so batching does not delay them on a busy server. When a call returns, all waiting requests are sent, even if that makes
 * more calls: otherwise the round-trip time would limit the requests of an agent.
 */
const BATCH_ABOVE_CALLS = 2;

/** Runs a script on keys, each with its arguments. Resolves with a reply for each. */
export type Call = (
  script: Script,
  keys: readonly string[],
  args: readonly string[],
) => Promise<readonly (string | typeof UNDECIDABLE)[]>;

interface Batch {
  readonly script: Script;
  readonly keys: string[];
  readonly args: string[];
  readonly receivers: ReplyReceiver<string>[];
}

export class Batches {
  readonly #call: Call;
  /** Batches in the order of their first requests. Of each script, only the last batch has room for more. */
  #waiting: Batch[] = [];
  #calls = 0;
  #scheduled = false;

  constructor(call: Call) {
    this.#call = call;
  }

  add({ script, key, args }: ScriptRequest, receiver: ReplyReceiver<string>): void {
    let batch = this.#waiting.findLast((one) => one.script === script);
    if (batch === undefined || batch.keys.length >= MAX_KEYS) {
      batch = { script, keys: [], args: [], receivers: [] };
      this.#waiting.push(batch);
    }
    batch.keys.push(key);
    batch.args.push(args);
    batch.receivers.push(receiver);
    this.#schedule();
  }

  /** Sends at the end of this turn. */
  #schedule(): void {
    if (this.#scheduled || this.#calls >= BATCH_ABOVE_CALLS) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      const batches = this.#waiting;
      this.#waiting = [];
      for (const batch of batches) void this.#send(batch);
    });
  }

  #send({ script, keys, args, receivers }: Batch): Promise<void> {
    this.#calls++;
    return receiveAll(receivers, async () => {
      try {
        return await this.#call(script, keys, args);
      } finally {
        this.#calls--;
        if (this.#waiting.length > 0) this.#schedule();
      }
    });
  }
}
