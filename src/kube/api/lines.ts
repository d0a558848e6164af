// Splits the body of a watch into lines. Each line is one event.

import { Fault } from "#base/fault.ts";

const NEWLINE = 0x0a;

/**
 * The lines without their terminators and without empty lines.
 * @throws Fault RESOURCE_EXHAUSTED for a line of more than `maxBytes` bytes, UNAVAILABLE if the body ends within a line
 */
export async function* linesOf(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<string> {
  let parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, from);
      const part = chunk.subarray(from, end < 0 ? chunk.length : end);
      size += part.length;
      if (size > maxBytes) {
        throw new Fault("RESOURCE_EXHAUSTED", `an event has more than ${maxBytes} bytes`);
      }
      if (part.length > 0) parts.push(part);
      if (end < 0) break;
      if (size > 0) yield Buffer.concat(parts, size).toString("utf8");
      parts = [];
      size = 0;
      from = end + 1;
    }
  }
  if (size > 0) throw new Fault("UNAVAILABLE", "the watch broke off within an event");
}
