// Undoes the compression of messages, within the bound on messages. Few at a time: each may grow to 4 MiB, however
// small it came.

import { gunzip, inflate } from "node:zlib";
import { MAX_MESSAGE } from "./methods.ts";
import type { Encoding } from "./request.ts";
import { NO_ENCODING, NOT_COMPRESSED, type Refusal, TOO_LONG, UNKNOWN_ENCODING } from "./status.ts";

/** As many as Node has threads for it; more would only grow memory. */
const AT_ONCE = 4;

/** Whose message it is. */
interface Owner {
  /** Nobody waits for the message any more. */
  readonly ended: boolean;
}

type Done = (result: Uint8Array | Refusal) => void;

interface Job {
  readonly encoding: "deflate" | "gzip";
  readonly message: Uint8Array;
  readonly owner: Owner;
  readonly done: Done;
}

export class Inflater {
  readonly #waiting = new Set<Job>();
  #running = 0;

  /** Calls `done` with the message or why there is none: at once when it is not even tried. */
  inflate(encoding: Encoding, message: Uint8Array, owner: Owner, done: Done): void {
    if (encoding === "identity") done(NO_ENCODING);
    else if (encoding === "unknown") done(UNKNOWN_ENCODING);
    else {
      this.#waiting.add({ encoding, message, owner, done });
      this.#next();
    }
  }

  #next(): void {
    for (const job of this.#waiting) {
      if (this.#running === AT_ONCE) return;
      this.#waiting.delete(job);
      // The call is told nevertheless: it still counts as at work.
      if (job.owner.ended) job.done(NOT_COMPRESSED);
      else this.#run(job);
    }
  }

  #run({ encoding, message, done }: Job): void {
    this.#running++;
    const run = encoding === "gzip" ? gunzip : inflate;
    run(message, { maxOutputLength: MAX_MESSAGE }, (error, inflated) => {
      this.#running--;
      done(error === null ? inflated : refusalOf(error));
      this.#next();
    });
  }
}

function refusalOf(error: NodeJS.ErrnoException): Refusal {
  return error.code === "ERR_BUFFER_TOO_LARGE" ? TOO_LONG : NOT_COMPRESSED;
}
