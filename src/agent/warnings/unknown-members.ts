// Tells in the log of members of JSON checks that no message has, each once: such a member may be a misspelt one, and a check
// without its labels passes where a limit was meant. Newer and older clients send them too, so they are no error.

import type { OperationContext } from "#api/context.ts";
import type { Log } from "#base/log.ts";
import { nearest } from "#base/text/spelling.ts";
import type { Observer } from "#flow/observer.ts";

/** Names that are remembered, and their length: callers choose them. */
const MOST_NAMES = 100;
const LONGEST_NAME = 64;

/** Returns the function that is told of each such member. */
export function tellUnknownMembers(
  log: Log,
  observer: Pick<Observer, "anomaly">,
): OperationContext["unknownMember"] {
  const told = new Set<string>();
  return (path, known) => {
    observer.anomaly("unknown_member");
    if (told.size >= MOST_NAMES) return;
    const name = path.slice(0, LONGEST_NAME);
    if (told.has(name)) return;
    told.add(name);
    const meant = nearest(name.slice(name.lastIndexOf(".") + 1), [...known.keys()]);
    log.warn({ member: name, ...(meant && { meant }) }, TEXT);
  };
}

const TEXT = "a JSON check has an unknown field; it is ignored in this check and in all later ones";
