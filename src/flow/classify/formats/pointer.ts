// JSON pointers (RFC 6901), parsed when a plan arrives.

import { Fault } from "#base/fault.ts";

/** One step of a pointer: a member's name, and the index that it means in an array (-1 when it means none). */
export interface Segment {
  readonly name: string;
  readonly index: number;
}

const INDEX = /^(?:0|[1-9]\d{0,8})$/;
const STRAY_TILDE = /~(?![01])/;

/** The empty pointer has no segments and means the whole document. */
export function parsePointer(pointer: string): readonly Segment[] {
  if (pointer === "") return [];
  if (!pointer.startsWith("/")) throw malformed(pointer, 'a pointer is empty or starts with "/"');
  if (STRAY_TILDE.test(pointer))
    throw malformed(pointer, '"~" is written ~0, and "/" in a name ~1');
  return pointer
    .slice(1)
    .split("/")
    .map((part) => {
      const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
      return { name, index: INDEX.test(name) ? Number(name) : -1 };
    });
}

function malformed(pointer: string, wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `JSON pointer "${pointer}": ${wanted}`);
}
