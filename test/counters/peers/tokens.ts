// Keys of ten tokens that agents count for each other, and taking all of them.

import assert from "node:assert/strict";
import { TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import type { Agent } from "./network.ts";

/** Ten tokens that are never filled again: every token that is admitted beyond them is one too many. */
export const TEN = { ...TEN_PER_SECOND, amount: 0 };
export const KEYS = Array.from({ length: 40 }, (_, at) => `user-${at}`);

export function first(agents: readonly Agent[]): Agent {
  const [agent] = agents;
  if (agent === undefined) throw new Error("no agents");
  return agent;
}

/** The agent that counts a key. */
export function ownerOf(agents: readonly Agent[], key: string): Agent {
  const owner = agents.find((agent) => agent.owns(key));
  if (owner === undefined) throw new Error(`nobody owns ${key}`);
  return owner;
}

/** Takes `count` of each key, asking the agents in turn; returns what was granted. */
export async function drain(agents: readonly Agent[], count: number, params = TEN) {
  const granted = await Promise.all(
    KEYS.flatMap((key, at) =>
      Array.from({ length: count }, async (_, n) => {
        const agent = agents[(at + n) % agents.length] ?? first(agents);
        return Number(await agent.passes(key, params));
      }),
    ),
  );
  return granted.reduce((sum, each) => sum + each, 0);
}

/** The only limiter of an agent. */
export const limiterOf = ({ group }: Agent) => [...group.owned.all][0] ?? assert.fail("no limiter");
