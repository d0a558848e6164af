// The functions of an agent that a controller can call, as a table. They run with bounds on number, size and time.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { type Answer, MAX_REPLY_BYTES, readRequest, tooLarge } from "./message.ts";

/** Functions by the full name of their request message. They get and return encoded messages, and throw Faults. */
export type Functions = ReadonlyMap<
  string,
  (message: Uint8Array) => Uint8Array | Promise<Uint8Array>
>;

/** Requests that run at the same time; as many as there are controllers and people who ask. */
const MAX_RUNNING = 32;
/** Milliseconds that a function may take. No caller waits longer. */
const MAX_MS = 30_000;

export const OUTCOMES = ["answered", "failed", "refused"] as const;
type Outcome = (typeof OUTCOMES)[number];

export class FunctionRunner {
  /** Requests since the start, by outcome. */
  readonly counts: Record<Outcome, number> = { answered: 0, failed: 0, refused: 0 };
  readonly #functions: Functions;
  readonly #clock: Clock;
  readonly #log: Pick<Log, "debug">;
  #running = 0;

  constructor(functions: Functions, clock: Clock, log: Pick<Log, "debug">) {
    this.#functions = functions;
    this.#clock = clock;
    this.#log = log;
  }

  /** Answers an encoded request; faults are answers as well. */
  async run(bytes: Uint8Array): Promise<Answer> {
    if (this.#running >= MAX_RUNNING) {
      this.counts.refused += 1;
      const wanted = `wanted at most ${MAX_RUNNING} requests at a time, got more`;
      return { fault: new Fault("RESOURCE_EXHAUSTED", wanted) };
    }
    this.#running += 1;
    try {
      const reply = await this.#inTime(this.#call(bytes));
      if (reply.length > MAX_REPLY_BYTES) throw tooLarge(reply, MAX_REPLY_BYTES);
      this.counts.answered += 1;
      this.#log.debug?.({ request: nameIn(bytes), bytes: reply.length }, "answered a controller");
      return { reply };
    } catch (thrown) {
      this.counts.failed += 1;
      this.#log.debug?.({ request: nameIn(bytes), error: thrown }, "answered a controller");
      return { fault: Fault.from(thrown) };
    } finally {
      this.#running -= 1;
    }
  }

  async #call(bytes: Uint8Array): Promise<Uint8Array> {
    const { name, message } = readRequest(bytes);
    const run = this.#functions.get(name);
    if (run === undefined) {
      const shown = JSON.stringify(name.slice(0, 200));
      throw new Fault("UNIMPLEMENTED", `this agent does not answer ${shown}`);
    }
    return run(message);
  }

  async #inTime(called: Promise<Uint8Array>): Promise<Uint8Array> {
    return within(MAX_MS, this.#clock, called, () => {
      throw new Fault("DEADLINE_EXCEEDED", `no answer within ${MAX_MS} ms`);
    });
  }
}

/** Undefined where the request cannot be read. */
function nameIn(bytes: Uint8Array): string | undefined {
  try {
    return readRequest(bytes).name;
  } catch {
    return undefined;
  }
}
