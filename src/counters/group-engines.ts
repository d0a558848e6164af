// The engines of counters that the agents of a group use, read from their records. Agents with different engines count apart:
// each engine admits the whole limit.

import type { Log } from "#base/log.ts";
import type { Member, OwnGroup } from "#fleet/members.ts";

/** `local`: each process counts for itself. */
export type EngineName = "local" | "peers" | "redis";

/** The service that an agent lists in its record for its engine. An agent without one counts for itself. */
export const COUNTER_SERVICES = {
  peers: "sluice-counters",
  redis: "sluice-counters-redis",
} as const satisfies Readonly<Record<Exclude<EngineName, "local">, string>>;

/** Most agents that a message names. */
const MAX_NAMED = 5;

/**
 * Calls `changed` with a description of the agents of the group that use another engine than `own`, and with undefined when
 * there are none any more; logs both. Returns the function that ends this.
 */
export function watchEngines(
  own: EngineName,
  members: OwnGroup,
  log: Log,
  changed: (others: string | undefined) => void,
): () => void {
  let before: string | undefined;
  const update = () => {
    const others = members.list.filter((member) => isOther(member, own, members.self));
    const now = others.length === 0 ? undefined : description(own, others);
    if (now === before) return;
    if (now === undefined) log.info({}, `all agents of the group use the engine ${own} now`);
    else if (before === undefined) log.warn({ agents: others.length }, now);
    before = now;
    changed(now);
  };
  const ignore = members.onChange(update);
  update();
  return ignore;
}

/** Agents of other implementations have no id and share no counts. */
function isOther(member: Member, own: EngineName, self: Member | undefined): boolean {
  return member.id !== "" && member.id !== self?.id && engineOf(member) !== own;
}

function engineOf({ services }: Member): EngineName {
  if (services[COUNTER_SERVICES.peers] !== undefined) return "peers";
  return services[COUNTER_SERVICES.redis] !== undefined ? "redis" : "local";
}

function description(own: EngineName, others: readonly Member[]): string {
  const named = others.slice(0, MAX_NAMED).map((each) => `${each.address} (${shownEngine(each)})`);
  const more = others.length > MAX_NAMED ? ` and ${others.length - MAX_NAMED} more` : "";
  const list = `${named.join(", ")}${more}`;
  return `agents of the group count apart from this one, whose counters.engine is ${own}: ${list}`;
}

/** While an agent waits for the secret, its record looks like that of an agent with the engine `local`. */
function shownEngine(member: Member): string {
  const engine = engineOf(member);
  return engine === "local" ? "counts for itself, or does not share yet" : engine;
}
