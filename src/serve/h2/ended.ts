// Which streams ended last and how: frames for them may still be on their way.

import { REMEMBERED_ENDS } from "./limits.ts";

const UNKNOWN = 0;

export class Ended {
  /** Stream ids by their order; negative: reset by us. Made when the first stream ends. */
  #ids: Int32Array | undefined;

  note(stream: number, byUs: boolean): void {
    this.#ids ??= new Int32Array(REMEMBERED_ENDS);
    this.#ids[slot(stream)] = byUs ? -stream : stream;
  }

  /** We reset it: whoever sends to it may not know yet. */
  resetByUs(stream: number): boolean {
    return this.#ids?.[slot(stream)] === -stream;
  }

  /** It was there, not just skipped. */
  knows(stream: number): boolean {
    const id = this.#ids?.[slot(stream)] ?? UNKNOWN;
    return id === stream || id === -stream;
  }
}

function slot(stream: number): number {
  return (stream >>> 1) % REMEMBERED_ENDS;
}
