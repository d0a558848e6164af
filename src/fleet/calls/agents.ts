// The agents that a controller knows. It asks each over its connection, or through the store where there is none.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log, LogFields } from "#base/log.ts";
import type { Member, Members } from "../members.ts";
import type { Connections } from "./connections.ts";
import type { Request } from "./message.ts";
import type { Questions } from "./questions.ts";

interface AgentsOptions {
  readonly members: Members;
  readonly questions: Pick<Questions, "ask">;
  readonly connections: Pick<Connections, "ask" | "has" | "list">;
  readonly clock: Clock;
  readonly log: Pick<Log, "debug">;
}

/** Outcomes of one request to many agents, by agent. */
export interface Outcomes {
  readonly replies: readonly (readonly [Member, Uint8Array])[];
  readonly failed: readonly (readonly [Member, Fault])[];
}

/** Milliseconds until a request is answered, with the time that it waits for its turn. */
const ANSWER_MS = 10_000;
/** Limit of concurrent requests. Further ones wait for their turn. */
const MAX_AT_ONCE = 64;
/** Limit of requests that wait for their turn. */
const MAX_WAITING = 10_000;

export class Agents {
  readonly #options: AgentsOptions;
  /** The requests that wait for their turn, in order. */
  readonly #queue = new Set<() => void>();
  #running = 0;
  /** Requests since the start. */
  readonly counts = { answered: 0, failed: 0 };

  constructor(options: AgentsOptions) {
    this.#options = options;
  }

  /** Sorted by group and address, each agent once. */
  get list(): readonly Member[] {
    const { members, connections } = this.#options;
    const ids = new Set(members.list.map(({ id }) => id));
    const others = connections.list.filter(({ id }) => !ids.has(id));
    if (others.length === 0) return members.list;
    return [...members.list, ...others].sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
  }

  reachedBy({ id }: Member): "connection" | "store" {
    return id !== "" && this.#options.connections.has(id) ? "connection" : "store";
  }

  /** Resolves to the encoded reply. @throws Fault as the agent answered it, DEADLINE_EXCEEDED, UNAVAILABLE, CANCELLED */
  async ask(member: Member, request: Request, signal?: AbortSignal): Promise<Uint8Array> {
    const { clock, log } = this.#options;
    const started = clock.now();
    const logOutcome = (result: LogFields) => {
      const { group, address } = member;
      const ms = Math.round(clock.now() - started);
      log.debug?.(
        { group, address, way: this.reachedBy(member), request: request.name, ms, ...result },
        "asked an agent",
      );
    };
    const stop = new AbortController();
    let late = false;
    const disarm = clock.alarm(ANSWER_MS, () => {
      late = true;
      stop.abort();
    });
    const cancel = () => stop.abort();
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) cancel();
    try {
      await this.#turn(stop.signal);
      const reply = await this.#send(member, request, stop.signal).finally(() => this.#next());
      this.counts.answered += 1;
      logOutcome({ bytes: reply.length });
      return reply;
    } catch (thrown) {
      this.counts.failed += 1;
      const inTime = `no answer within ${ANSWER_MS} ms`;
      const fault = late ? new Fault("DEADLINE_EXCEEDED", inTime) : thrown;
      logOutcome({ error: fault });
      throw fault;
    } finally {
      disarm();
      signal?.removeEventListener("abort", cancel);
    }
  }

  /** Asks all of them at the same time. */
  async askAll(
    members: readonly Member[],
    request: Request,
    signal?: AbortSignal,
  ): Promise<Outcomes> {
    const replies: [Member, Uint8Array][] = [];
    const failed: [Member, Fault][] = [];
    const one = async (member: Member) => {
      try {
        replies.push([member, await this.ask(member, request, signal)]);
      } catch (thrown) {
        failed.push([member, Fault.from(thrown)]);
      }
    };
    await Promise.all(members.map(one));
    return { replies, failed };
  }

  #send(member: Member, request: Request, signal: AbortSignal): Promise<Uint8Array> {
    const { questions, connections } = this.#options;
    return this.reachedBy(member) === "connection"
      ? connections.ask(member.id, request, signal)
      : questions.ask(member, request, signal);
  }

  /** Resolves when the request may be sent. A request that ends before leaves the queue. */
  async #turn(ended: AbortSignal): Promise<void> {
    if (this.#running < MAX_AT_ONCE) {
      this.#running += 1;
      return;
    }
    if (this.#queue.size >= MAX_WAITING) {
      throw new Fault("RESOURCE_EXHAUSTED", "too many requests to agents wait for their turn");
    }
    const turn = Promise.withResolvers<void>();
    const leave = () => {
      this.#queue.delete(turn.resolve);
      turn.reject(new Fault("CANCELLED", "nobody waits for the answer"));
    };
    if (ended.aborted) leave();
    else {
      this.#queue.add(turn.resolve);
      ended.addEventListener("abort", leave, { once: true });
    }
    await turn.promise.finally(() => ended.removeEventListener("abort", leave));
  }

  /** Hands the turn of a request on. */
  #next(): void {
    const [next] = this.#queue;
    if (next === undefined) {
      this.#running -= 1;
      return;
    }
    this.#queue.delete(next);
    next();
  }
}

function placeOf({ group, address }: Member): string {
  return `${group}/${address}`;
}
