// Undoes the compression of messages, within the bound on messages. Few at a time: each may grow to 4 MiB, however
// small it came. Connections take turns, and pay for what grows out of all proportion.

import { gunzip, inflate } from "node:zlib";
import { MAX_MESSAGE } from "./methods.ts";
import type { Encoding } from "./request.ts";
import { NO_ENCODING, NOT_COMPRESSED, type Refusal, TOO_LONG, UNKNOWN_ENCODING } from "./status.ts";

/** Half of the threads that Node has for it: the others are for files and names. */
const AT_ONCE = 2;
/** Room that a message is given at a time: with Node's own 16 KiB a bomb takes more than twice the CPU time. */
const CHUNK = 64 * 1024;
/** Messages that grow by more than this are made to: texts and logs grow by a tenth of it. */
const FAIR_GROWTH = 200;
/**
 * What it is worth, in broken calls, to inflate up to the bound on messages: some ms of CPU time. A connection has
 * 1 000 at once, and 100 for each second.
 */
const PRICE = 50;

/** Whose message it is. */
export interface Owner {
  /** Nobody waits for the message any more. */
  readonly ended: boolean;
  /** The same for all messages of one connection. */
  readonly connection: object;
  /** Inflating it cost us as much as so many broken calls. Told after the result. */
  inflated(price: number, failed: boolean): void;
}

type Done = (result: Uint8Array | Refusal) => void;

interface Job {
  readonly encoding: "deflate" | "gzip";
  readonly message: Uint8Array;
  readonly owner: Owner;
  readonly done: Done;
}

export class Inflater {
  /** By connection, the one whose turn is next first. */
  readonly #waiting = new Map<object, Set<Job>>();
  #running = 0;

  /** Calls `done` with the message or why there is none: at once when it is not even tried. */
  inflate(encoding: Encoding, message: Uint8Array, owner: Owner, done: Done): void {
    if (encoding === "identity") done(NO_ENCODING);
    else if (encoding === "unknown") done(UNKNOWN_ENCODING);
    else {
      const { connection } = owner;
      const jobs = this.#waiting.get(connection) ?? new Set();
      this.#waiting.set(connection, jobs.add({ encoding, message, owner, done }));
      this.#next();
    }
  }

  #next(): void {
    while (this.#running < AT_ONCE) {
      const job = this.#take();
      if (job === undefined) return;
      // The call is told nevertheless: it still counts as at work.
      if (job.owner.ended) job.done(NOT_COMPRESSED);
      else this.#run(job);
    }
  }

  #take(): Job | undefined {
    for (const [connection, jobs] of this.#waiting) {
      this.#waiting.delete(connection);
      for (const job of jobs) {
        jobs.delete(job);
        if (jobs.size > 0) this.#waiting.set(connection, jobs);
        return job;
      }
    }
    return undefined;
  }

  #run({ encoding, message, owner, done }: Job): void {
    this.#running++;
    const run = encoding === "gzip" ? gunzip : inflate;
    run(message, { maxOutputLength: MAX_MESSAGE, chunkSize: CHUNK }, (error, inflated) => {
      this.#running--;
      done(error === null ? compact(inflated) : refusalOf(error));
      if (error !== null) owner.inflated(PRICE, true);
      else if (inflated.length > message.length * FAIR_GROWTH) {
        owner.inflated((PRICE * inflated.length) / MAX_MESSAGE, false);
      }
      this.#next();
    });
  }
}

/** Small messages must not keep all of the room that they were inflated into. */
function compact(inflated: Buffer): Uint8Array {
  return inflated.length < CHUNK / 2 ? Uint8Array.prototype.slice.call(inflated) : inflated;
}

function refusalOf(error: NodeJS.ErrnoException): Refusal {
  return error.code === "ERR_BUFFER_TOO_LARGE" ? TOO_LONG : NOT_COMPRESSED;
}
