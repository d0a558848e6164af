// What every door is given, and how a door waits: a verdict that is there is answered in the same turn,
// one that is not becomes a promise that the caller's leaving cancels.

import type { Chance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { Pending, type Verdict } from "#flow/flow.ts";
import type { Mind } from "#flow/mind.ts";
import type { Call } from "#serve/handler.ts";
import { HeaderNames } from "#wire/headers.ts";
import { HttpAnswerWriter } from "#wire/http-answer.ts";
import { JsonAnswerWriter } from "#wire/json-response.ts";
import { Shapes } from "./request-labels.ts";
import type { ServiceLookup } from "./services.ts";

/** Reply header that names one decision among all of all agents. */
export const DECISION_ID = "x-sluice-decision-id";

/** The mind, the world and the memory that the doors of one agent share. */
export interface Door {
  readonly mind: Mind;
  readonly lookup: ServiceLookup;
  readonly names: HeaderNames;
  readonly shapes: Shapes;
  readonly proto: HttpAnswerWriter;
  readonly json: JsonAnswerWriter;
  /** A new decision id. */
  nextId(): string;
}

export function doorOf(mind: Mind, lookup: ServiceLookup, chance: Chance): Door {
  const digits = () =>
    Math.floor(chance() * 0x100000000)
      .toString(16)
      .padStart(8, "0");
  const prefix = `${digits()}${digits()}-`;
  let count = 0;
  return {
    mind,
    lookup,
    names: new HeaderNames(chance),
    shapes: new Shapes(),
    proto: new HttpAnswerWriter(),
    json: new JsonAnswerWriter(),
    nextId: () => prefix + (count++).toString(36),
  };
}

/** Without a control point nothing can be judged, at any door. */
export function requireControlPoint(controlPoint: string): void {
  if (controlPoint === "") throw new Fault("INVALID_ARGUMENT", "missing control-point");
}

/** Answers by the verdict, now or when it comes. The caller's signal is only asked for when it must wait. */
export function answer<Reply>(
  judged: Verdict | Pending<Verdict>,
  call: Call,
  reply: (verdict: Verdict) => Reply,
): Reply | Promise<Reply> {
  return judged instanceof Pending ? wait(judged, call.signal(), reply) : reply(judged);
}

/** Answers when the verdict comes; the caller's leaving cancels it. */
export function wait<Reply>(
  pending: Pending<Verdict>,
  signal: AbortSignal,
  reply: (verdict: Verdict) => Reply,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const leave = () => pending.cancel();
    signal.addEventListener("abort", leave, { once: true });
    const failed = (thrown: unknown) => {
      signal.removeEventListener("abort", leave);
      reject(thrown);
    };
    pending.whenSettled((verdict) => {
      signal.removeEventListener("abort", leave);
      try {
        resolve(reply(verdict));
      } catch (thrown) {
        reject(thrown);
      }
    }, failed);
    if (signal.aborted) leave();
  });
}

/** Goes on with a value that may not be there yet. (A module that exports `then` cannot be awaited.) */
export function andThen<In, Out>(
  value: In | Promise<In>,
  next: (value: In) => Out,
): Out | Promise<Out> {
  return value instanceof Promise ? value.then(next) : next(value);
}
