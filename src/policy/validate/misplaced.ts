// Where a key that a message does not have would be right: authors indent a component or its settings one level too far, or
// leave out the level above.

import type { Message, Type } from "../language/field.ts";

/** Levels below a message in which its key is looked for. */
const LEVELS = 2;

/** A message with the key that holds it; the document itself has none. */
export interface Level {
  readonly key: string;
  readonly message: Message;
}

/**
 * Completes "belongs …"; undefined when the key belongs nowhere near, or in several places of one level. `above` are the messages
 * around this one, the nearest one last.
 */
export function placeOf(
  key: string,
  message: Message,
  above: readonly Level[],
): string | undefined {
  let level: readonly { readonly path: string; readonly message: Message }[] = [
    { path: "", message },
  ];
  for (let depth = 0; depth < LEVELS; depth++) {
    level = level.flatMap(({ path, message: { fields } }) =>
      Object.entries(fields).flatMap(([name, { type }]) => {
        const inner = messageOf(type);
        return inner === undefined
          ? []
          : [{ path: `${path}${path && "."}${name}`, message: inner }];
      }),
    );
    const found = level.filter(({ message: { fields } }) => Object.hasOwn(fields, key));
    if (found.length === 1) return `under ${found[0]?.path}`;
    if (found.length > 1) return undefined;
  }
  const around = above.findLast((outer) => Object.hasOwn(outer.message.fields, key));
  if (around === undefined) return undefined;
  return around.key === "" ? "at the top of the document" : `further out, in ${around.key}`;
}

function messageOf(type: Type): Message | undefined {
  if (type.kind === "message") return type.of();
  return type.kind === "list" ? messageOf(type.of.type) : undefined;
}
