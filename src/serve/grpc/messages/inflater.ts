// Decompresses messages, up to the limit on their length. Few run at a time, since each may grow to the limit
// however small it arrived. Connections take turns and pay for messages that grow disproportionately.

import { gunzip, inflate } from "node:zlib";
import type { Encoding } from "../request.ts";
import {
  type CallStatus,
  DECOMPRESSION_FAILED,
  MISSING_ENCODING,
  messageTooLong,
  UNKNOWN_ENCODING,
} from "../status.ts";

/** Half of Node's worker threads: the others are for files and DNS. */
const MAX_RUNNING = 2;
/** Output buffer per step: with Node's default of 16 KiB a decompression bomb takes more than twice the CPU time. */
const CHUNK_SIZE = 64 * 1024;
/**
 * Growth factor up to which decompression is free. Texts and logs grow by a tenth of it; only crafted messages
 * exceed it.
 */
const MAX_FREE_GROWTH = 200;
/**
 * Price, in broken calls, of inflating up to the limit on messages: a few ms of CPU time. A connection can spend
 * 1 000 at once and 100 per second.
 */
const FULL_PRICE = 50;

/** The call that a message belongs to. */
export interface MessageOwner {
  /** The message is no longer needed. */
  readonly ended: boolean;
  /** The same object for all messages of one connection. */
  readonly connection: object;
  /** Decompression cost as much as this many broken calls. Called after the result. */
  inflated(price: number, failed: boolean): void;
}

type Done = (result: Uint8Array | CallStatus) => void;

interface Job {
  readonly encoding: "deflate" | "gzip";
  readonly message: Uint8Array;
  readonly owner: MessageOwner;
  readonly done: Done;
}

export class Inflater {
  /** By connection; the one whose turn is next comes first. */
  readonly #waiting = new Map<object, Set<Job>>();
  readonly #maxMessage: number;
  #running = 0;

  constructor(maxMessage: number) {
    this.#maxMessage = maxMessage;
  }

  /** Calls `done` with the message, or with the status that says why there is none; synchronously if the encoding rules it out. */
  inflate(encoding: Encoding, message: Uint8Array, owner: MessageOwner, done: Done): void {
    if (encoding === "identity") done(MISSING_ENCODING);
    else if (encoding === "unknown") done(UNKNOWN_ENCODING);
    else {
      const { connection } = owner;
      const jobs = this.#waiting.get(connection) ?? new Set();
      this.#waiting.set(connection, jobs.add({ encoding, message, owner, done }));
      this.#next();
    }
  }

  #next(): void {
    while (this.#running < MAX_RUNNING) {
      const job = this.#take();
      if (job === undefined) return;
      // Called all the same: until then the call counts as running.
      if (job.owner.ended) job.done(DECOMPRESSION_FAILED);
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
    const maxOutputLength = this.#maxMessage;
    run(message, { maxOutputLength, chunkSize: CHUNK_SIZE }, (error, inflated) => {
      this.#running--;
      done(error === null ? compact(inflated) : statusOf(error, maxOutputLength));
      if (error !== null) owner.inflated(FULL_PRICE, true);
      else if (inflated.length > message.length * MAX_FREE_GROWTH) {
        owner.inflated((FULL_PRICE * inflated.length) / maxOutputLength, false);
      }
      this.#next();
    });
  }
}

/** A small message must not keep the whole output buffer. */
function compact(inflated: Buffer): Uint8Array {
  return inflated.length < CHUNK_SIZE / 2 ? Uint8Array.prototype.slice.call(inflated) : inflated;
}

function statusOf(error: NodeJS.ErrnoException, limit: number): CallStatus {
  return error.code === "ERR_BUFFER_TOO_LARGE" ? messageTooLong(limit) : DECOMPRESSION_FAILED;
}
