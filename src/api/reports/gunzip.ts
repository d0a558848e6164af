// Decompresses bodies of requests outside the event loop, up to a limit on their length. Few run at a time, because each
// may grow to the limit however small it arrived.

import { gunzip } from "node:zlib";
import { Fault } from "#base/fault.ts";

/** Half of Node's worker threads: the others are for files and DNS. */
const MAX_RUNNING = 2;
const MAX_WAITING = 100;
/** Output buffer per step: with Node's default of 16 KiB a decompression bomb takes more than twice the CPU time. */
const CHUNK_SIZE = 64 * 1024;

export class Gunzip {
  readonly #maxLength: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** `maxLength`: of the result, in bytes. */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** Rejects with a Fault: INVALID_ARGUMENT for a body that is not gzip, RESOURCE_EXHAUSTED beyond a limit. */
  async run(body: Uint8Array): Promise<Uint8Array> {
    if (this.#running < MAX_RUNNING) this.#running++;
    else await this.#turn();
    try {
      return await this.#inflate(body);
    } finally {
      // The next one takes over the place of this one.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }

  #turn(): Promise<void> {
    if (this.#waiting.length >= MAX_WAITING) {
      throw new Fault("RESOURCE_EXHAUSTED", "too many compressed bodies are waiting", {
        http: 503,
      });
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #inflate(body: Uint8Array): Promise<Uint8Array> {
    const options = { maxOutputLength: this.#maxLength, chunkSize: CHUNK_SIZE };
    return new Promise((resolve, reject) => {
      gunzip(body, options, (error, inflated) => {
        if (error === null) resolve(inflated);
        else reject(faultOf(error, this.#maxLength));
      });
    });
  }
}

function faultOf({ code }: NodeJS.ErrnoException, maxLength: number): Fault {
  return code === "ERR_BUFFER_TOO_LARGE"
    ? new Fault("RESOURCE_EXHAUSTED", `the decompressed body must be at most ${maxLength} bytes`, {
        http: 413,
      })
    : new Fault("INVALID_ARGUMENT", "content-encoding is gzip, but the body is not");
}
