// Users who send requests to a shop, over a connection each or over few that they keep, and count the answers.

import type { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { type Front, send } from "./shop.ts";

export interface Counts {
  readonly sent: number;
  readonly admitted: number;
  readonly refused: number;
  /** Everything that was neither admitted nor refused by a decision, with its time. */
  readonly lost: readonly string[];
  /** Checks that took longer than Envoy waits for one, so that the user tried again. */
  readonly late: number;
  /** The admitted requests of the user who got most: when, and by which pod. */
  readonly most: readonly string[];
}

/** Envoy answers 503 where the agent has not decided within this time; sooner, where it cannot be asked. */
const CHECK_MS = 250;
const MAX_TRIES = 10;
/** Each user sends twice as many requests as the policy admits, then goes on as somebody else. */
const REQUESTS_OF_A_USER = 10;
const WORKERS = 3;
const PAUSE_MS = 40;

export class Load {
  readonly #front: Front;
  readonly #agent: Agent | undefined;
  readonly #admitted = new Map<string, string[]>();
  readonly #lost: string[] = [];
  readonly #stopping = new AbortController();
  #sent = 0;
  #refused = 0;
  #late = 0;
  #working: Promise<unknown> | undefined;

  /** Without an agent, each request has a connection of its own. */
  constructor(front: Front, agent?: Agent) {
    this.#front = front;
    this.#agent = agent;
  }

  /** Sends one request of a user. On a machine that is busy with other things a check may be late: the user then tries again. */
  async send(user: string): Promise<void> {
    const began = new Date().toISOString();
    try {
      for (let tries = 1; ; tries++) {
        const { status, body, ms } = await send(this.#front, user, this.#agent);
        const isLate = status === 503 && body === "" && ms >= CHECK_MS;
        if (isLate && tries < MAX_TRIES) this.#late++;
        else {
          if (status === 200) this.#admit(user, `${user} ${began} ${body}`);
          else if (status === 429) this.#refused++;
          else this.#lost.push(`${began}: ${status} after ${ms} ms: ${body}`);
          break;
        }
      }
    } catch (error) {
      this.#lost.push(`${began}: ${error}`);
    }
    this.#sent++;
  }

  #admit(user: string, what: string): void {
    const known = this.#admitted.get(user);
    if (known === undefined) this.#admitted.set(user, [what]);
    else known.push(what);
  }

  /** Sends requests of ever new users until `stop`. */
  start(): void {
    const work = async (worker: number) => {
      for (let at = 0; !this.#stopping.signal.aborted; at++) {
        await this.send(`load-${worker}-${Math.floor(at / REQUESTS_OF_A_USER)}`);
        await sleep(PAUSE_MS);
      }
    };
    this.#working = Promise.all([...Array(WORKERS).keys()].map(work));
  }

  /** Resolves once so many more requests have been answered. */
  async more(requests: number): Promise<void> {
    const wanted = this.#sent + requests;
    while (this.#sent < wanted) await sleep(PAUSE_MS);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#working;
  }

  counts(): Counts {
    const admitted = [...this.#admitted.values()];
    return {
      sent: this.#sent,
      admitted: admitted.reduce((sum, { length }) => sum + length, 0),
      refused: this.#refused,
      lost: this.#lost,
      late: this.#late,
      most: admitted.reduce((one, other) => (other.length > one.length ? other : one), []),
    };
  }
}
