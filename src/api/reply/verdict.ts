// Replies when the verdict is known: in the same turn if it is already there, otherwise through a promise that
// is cancelled when the caller disconnects.

import type { Call } from "#base/handler.ts";
import type { Refusal } from "#base/http/refusal.ts";
import { type Flow, Pending, type Verdict } from "#flow/flow.ts";
import type { FlowController } from "#flow/flow-controller.ts";

/** Judges a flow, or refuses it without judging it if there is a `refusal`. */
export function judged(
  flowController: FlowController,
  flow: Flow,
  refusal: Refusal | undefined,
): Verdict | Pending<Verdict> {
  return refusal === undefined ? flowController.judge(flow) : flowController.refuse(flow, refusal);
}

/**
 * Replies with `reply(verdict)`. If the reply does not reach the caller, the slots of the flow are released.
 */
export function replyTo<Reply>(
  judged: Verdict | Pending<Verdict>,
  call: Call,
  reply: (verdict: Verdict) => Reply,
): Reply | Promise<Reply> {
  return judged instanceof Pending
    ? replyWhenSettled(judged, call, reply)
    : replyNow(judged, call, reply);
}

function replyNow<Reply>(verdict: Verdict, call: Call, reply: (verdict: Verdict) => Reply): Reply {
  if (verdict.held !== undefined) call.releaseIfUndelivered(verdict.held);
  return reply(verdict);
}

/** Resolves with `reply(verdict)` once the verdict is settled; cancels the pending check when the caller leaves. */
export function replyWhenSettled<Reply>(
  pending: Pending<Verdict>,
  call: Call,
  reply: (verdict: Verdict) => Reply,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    pending.whenSettled((verdict) => {
      try {
        resolve(replyNow(verdict, call, reply));
      } catch (thrown) {
        reject(thrown);
      }
    }, reject);
    call.whenCallerLeaves(() => pending.cancel());
  });
}

/**
 * Applies `next` to a value that may be a promise, without making a promise where there is none.
 * (It cannot be called `then`: a module that exports `then` is a thenable.)
 */
export function andThen<In, Out>(
  value: In | Promise<In>,
  next: (value: In) => Out,
): Out | Promise<Out> {
  return value instanceof Promise ? value.then(next) : next(value);
}
