// Logs the unknown members of JSON checks, each once. Such a member may be misspelt, and a check without its labels may pass
// a limit. Newer and older clients send unknown members as well, so they are not errors.

import type { OperationContext } from "#api/context.ts";
import type { Log } from "#base/log.ts";
import { nearest } from "#base/text/spelling.ts";
import type { Observer } from "#flow/observer.ts";

/** Limits of the names that are remembered, because callers choose them. */
const MAX_NAMES = 100;
const MAX_LENGTH = 64;

/** Returns a function that must be told of each such member. */
export function tellUnknownMembers(
  log: Log,
  observer: Pick<Observer, "anomaly">,
): OperationContext["unknownMember"] {
  const told = new Set<string>();
  return (path, known) => {
    observer.anomaly("unknown_member");
    if (told.size >= MAX_NAMES) return;
    const name = path.slice(0, MAX_LENGTH);
    if (told.has(name)) return;
    told.add(name);
    const meant = nearest(name.slice(name.lastIndexOf(".") + 1), [...known.keys()]);
    log.warn({ member: name, ...(meant && { meant }) }, TEXT);
  };
}

const TEXT = "a JSON check has an unknown field; it is ignored in this check and in all later ones";
