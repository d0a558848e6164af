// The start of an incomplete header section. Node's parser does not say which request it refuses, and a gateway that
// forwards the headers of its clients needs a decision, not an error (`Route.unread`).

import { NO_BODY } from "../body.ts";

/** Bytes that are kept, and the longest request line: far more than that of any route. */
const MAX_KEPT = 1_024;
const EMPTY_LINE = "\r\n\r\n";
const LEADING_BREAKS = /^[\r\n]+/;
const REQUEST_LINE = /([A-Z]+) (\S+) HTTP\/1\.[01]\r?$/;

interface RequestLine {
  readonly method: string;
  readonly target: string;
}

export class HeadStart {
  #bytes: Uint8Array = NO_BODY;

  /** More of the header section has arrived. A single part is not copied. */
  add(chunk: Buffer): void {
    const { length } = this.#bytes;
    if (length === 0) this.#bytes = chunk;
    else if (length < MAX_KEPT) {
      this.#bytes = Buffer.concat([this.#bytes, chunk.subarray(0, MAX_KEPT - length)]);
    }
  }

  /** The header section is incomplete. */
  get begun(): boolean {
    return this.#bytes.length > 0;
  }

  /** The header section is complete. */
  clear(): void {
    this.#bytes = NO_BODY;
  }

  /**
   * The request line; undefined if it has not arrived or is malformed. `read` is the last read up to the fault. If it
   * completed an earlier request, the refused one begins in it, behind a header section and perhaps a body.
   */
  requestLine(read: Buffer = Buffer.alloc(0)): RequestLine | undefined {
    const known = this.#bytes.length > 0;
    const behind = known ? -1 : read.lastIndexOf(EMPTY_LINE);
    const bytes = known
      ? this.#bytes.subarray(0, MAX_KEPT)
      : read.subarray(behind === -1 ? 0 : behind + EMPTY_LINE.length);
    const text = Buffer.from(bytes).toString("latin1").replace(LEADING_BREAKS, "");
    const end = text.indexOf("\n");
    if (end === -1) return undefined;
    const line = text.slice(Math.max(0, end - MAX_KEPT), end);
    const [, method, target] = REQUEST_LINE.exec(line) ?? [];
    return method === undefined || target === undefined ? undefined : { method, target };
  }
}
