// One limiter's concurrency slots in Redis: one request takes a slot, another one ends it.

import { randomUUID } from "node:crypto";
import { type EngineAnswer, type SlotParams, UNDECIDED } from "#flow/counters/counter-engine.ts";
import type { SharedEngine } from "#flow/counters/shared-counters.ts";
import { Pending } from "#flow/flow.ts";
import { IGNORED } from "../leases/bucket-owner.ts";
import type { SentRequest } from "../requests.ts";
import { type AskEnd, isSlotId, mostSlots, type SlotEnds } from "../slot-ends.ts";
import type { RedisLimiter, ScriptRequests } from "./connection.ts";
import { NO_ROOM } from "./keys.ts";
import { SLOTS } from "./slot-script.ts";

export class RedisSlots implements SharedEngine<SlotParams> {
  readonly #limiter: RedisLimiter;
  readonly #ends: SlotEnds;
  #params: SlotParams | undefined;
  /** The parameters as fields of a request to the script. */
  #life = "";
  #limits = "";

  constructor(limiter: RedisLimiter, ends: SlotEnds) {
    this.#limiter = limiter;
    this.#ends = ends;
  }

  adopt(params: SlotParams): void {
    if (params === this.#params) return;
    this.#params = params;
    this.#life = String(params.maxInflightMs);
    this.#limits = `${params.max} ${mostSlots(params)}`;
  }

  /** The id is chosen here, so that a slot can be ended even if the reply is lost. */
  take(
    value: string | undefined,
    want: number,
    params: SlotParams,
  ): EngineAnswer | Pending<EngineAnswer> {
    this.adopt(params);
    const key = this.#limiter.keys.of(value);
    const id = randomUUID();
    let request: SentRequest | undefined;
    const pending = new Pending<EngineAnswer>(() => request?.cancel());
    const answered = (reply: string | undefined) => {
      if (reply === undefined) this.#ends.end(key, id, params, true);
      if (reply === NO_ROOM) this.#limiter.noRoom();
      const decided = reply !== undefined && reply !== NO_ROOM;
      pending.settle(decided ? answerOf(reply, id, params) : UNDECIDED);
    };
    const create = this.#limiter.keys.mayCreate(
      value,
      this.#limiter.clock.now(),
      params.maxInflightMs,
    )
      ? 1
      : 0;
    const args = `take ${id} ${this.#life} ${want} ${this.#limits} ${create}`;
    request = this.#limiter.requests.ask({ script: SLOTS, key, args }, answered, IGNORED);
    return request === undefined ? UNDECIDED : pending;
  }

  giveBack(
    value: string | undefined,
    _amount: number,
    id: string,
    params: SlotParams,
    unused = false,
  ): boolean | Pending<boolean> {
    return isSlotId(id) && this.#ends.end(this.#limiter.keys.of(value), id, params, unused);
  }

  close(): void {
    // The slots end or expire where they are.
  }
}

/** Asks Redis to end a slot. */
export function askEnd(requests: ScriptRequests): AskEnd {
  return ({ key, id, lifeMs }, answered) => {
    const settled = (reply: string | undefined) =>
      answered(reply === undefined ? undefined : reply === "1");
    const request = { script: SLOTS, key, args: `end ${id} ${lifeMs}` };
    return requests.ask(request, settled, IGNORED) !== undefined;
  };
}

/** Parses the reply of the script to a take. */
function answerOf(reply: string, id: string, { max }: SlotParams): EngineAnswer {
  const [state, sum = "0"] = reply.split(" ");
  const current = Number(sum);
  return {
    outcome: state === "1" ? "granted" : "refused",
    remaining: max - current,
    current,
    waitMs: 0,
    id,
    full: state === "2",
  };
}
