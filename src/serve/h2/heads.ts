// From HEADERS and CONTINUATION frames to judged heads: the pieces of a block, its decoding, and blocks that
// came before.

import type { Head } from "./exchange.ts";
import { ConnectionFault, protocolFault, sizeFault } from "./fault.ts";
import { FieldList } from "./fields.ts";
import { ERROR, FLAG, uint31 } from "./frames.ts";
import { goodTrailers, readHead } from "./head.ts";
import { CompressionFault, Decoder } from "./hpack/decoder.ts";
import { BLOCK_PER_LIST, HEADER_TABLE, MAX_BLOCK_FRAMES, MAX_FIELDS } from "./limits.ts";
import { RememberedHeads } from "./remembered.ts";

/** A block that is not whole yet. */
interface Unfinished {
  readonly stream: number;
  readonly ends: boolean;
  readonly parts: Buffer[];
  size: number;
}

/** Gets a whole block, padding and priority taken off; `ends`: no body or trailers follow. */
export type WholeBlock = (
  stream: number,
  ends: boolean,
  block: Buffer,
  start: number,
  end: number,
) => void;

/** Counts bytes that are kept against the bounds of the connection and of all. */
export interface Keeper {
  hold(bytes: number): boolean;
  release(bytes: number): void;
}

export class HeadReader {
  readonly #decoder = new Decoder(HEADER_TABLE);
  readonly #remembered = new RememberedHeads();
  readonly #maxList: number;
  readonly #whole: WholeBlock;
  readonly #keeper: Keeper;
  #unfinished: Unfinished | undefined;
  /** Of the block that was decoded last: its stream depends on itself (RFC 7540 §5.3.1). */
  selfish = false;

  constructor(maxList: number, whole: WholeBlock, keeper: Keeper) {
    this.#maxList = maxList;
    this.#whole = whole;
    this.#keeper = keeper;
  }

  /** The connection is gone. */
  forget(): void {
    if (this.#unfinished !== undefined) this.#keeper.release(this.#unfinished.size);
    this.#unfinished = undefined;
  }

  /** Stream of a block that is not whole: until then no other frame may come (RFC 9113 §6.10). */
  get open(): number {
    return this.#unfinished?.stream ?? 0;
  }

  headers(flags: number, stream: number, bytes: Buffer, start: number, end: number): void {
    let from = start;
    let to = end;
    this.selfish = false;
    if ((flags & (FLAG.padded | FLAG.priority)) !== 0) {
      if ((flags & FLAG.padded) !== 0) {
        if (from === to) throw sizeFault("a padded frame without its padding's length");
        to -= bytes[from++] ?? 0;
      }
      if ((flags & FLAG.priority) !== 0) {
        if (end - from < 5) throw sizeFault("a frame too short for its priority");
        this.selfish = uint31(bytes, from) === stream;
        from += 5;
      }
      if (from > to) throw protocolFault("more padding than frame");
    }
    const ends = (flags & FLAG.endStream) !== 0;
    if ((flags & FLAG.endHeaders) !== 0) this.#whole(stream, ends, bytes, from, to);
    else {
      this.#unfinished = { stream, ends, parts: [], size: 0 };
      this.#keep(this.#unfinished, bytes, from, to);
    }
  }

  continuation(flags: number, stream: number, bytes: Buffer, start: number, end: number): void {
    const unfinished = this.#unfinished;
    if (unfinished?.stream !== stream) throw protocolFault("CONTINUATION without a header block");
    this.#keep(unfinished, bytes, start, end);
    if (unfinished.parts.length > MAX_BLOCK_FRAMES) {
      throw new ConnectionFault(
        ERROR.calm,
        "continuation_flood",
        "a header block of too many frames",
      );
    }
    if ((flags & FLAG.endHeaders) === 0) return;
    this.forget();
    const block = Buffer.concat(unfinished.parts, unfinished.size);
    this.#whole(stream, unfinished.ends, block, 0, block.length);
  }

  #keep(unfinished: Unfinished, bytes: Buffer, start: number, end: number): void {
    const size = end - start;
    if (unfinished.size + size > this.#maxList * BLOCK_PER_LIST) {
      throw new ConnectionFault(ERROR.calm, "header_list", "the header block is too large");
    }
    if (!this.#keeper.hold(size)) {
      throw new ConnectionFault(ERROR.calm, undefined, "too many header blocks are not whole");
    }
    unfinished.size += size;
    // Not of Node's pool, of which a few bytes would keep far more than is counted.
    const part = Buffer.allocUnsafeSlow(size);
    bytes.copy(part, 0, start, end);
    unfinished.parts.push(part);
  }

  /** Head of a request; undefined when it is malformed. Throws when the block does not decode. */
  request(block: Buffer, start: number, end: number): Head | undefined {
    const { generation } = this.#decoder;
    const known = this.#remembered.find(block, start, end, generation);
    if (known !== undefined) return known;
    const head = readHead(this.#decode(block, start, end));
    if (head !== undefined && this.#decoder.generation === generation) {
      this.#remembered.keep(block, start, end, generation, head);
    }
    return head;
  }

  /** Judges a block of trailers; nobody reads what they say. `too_long`: the end of them has not been looked at. */
  trailers(block: Buffer, start: number, end: number): "good" | "malformed" | "too_long" {
    const fields = this.#decode(block, start, end);
    if (!goodTrailers(fields)) return "malformed";
    return fields.overflow ? "too_long" : "good";
  }

  /** Keeps the dynamic table right where nobody wants the fields. */
  skip(block: Buffer, start: number, end: number): void {
    this.#decode(block, start, end);
  }

  #decode(block: Buffer, start: number, end: number): FieldList {
    const fields = new FieldList(this.#maxList, MAX_FIELDS);
    try {
      this.#decoder.decode(block, start, end, fields);
    } catch (thrown) {
      if (!(thrown instanceof CompressionFault)) throw thrown;
      throw new ConnectionFault(ERROR.compression, "compression", "a header block does not decode");
    }
    return fields;
  }
}
