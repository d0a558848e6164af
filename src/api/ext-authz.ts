// envoy.service.auth.v3.Authorization/Check, which proxies call. The hottest operation: the request is read in
// place and, unless a limiter has to wait, answered in the same turn.

import type { UnaryHandler } from "#base/handler.ts";
import { Pending } from "#flow/flow.ts";
import type { OperationContext } from "./context.ts";
import { ProxyCheck } from "./fast-path/proxy-check.ts";
import { judged, replyWhenSettled } from "./reply/verdict.ts";

export function extAuthz(context: OperationContext): UnaryHandler {
  let spare: ProxyCheck | undefined;
  return (message, call) => {
    const check = spare ?? new ProxyCheck(context);
    // A check that throws or waits is not reused: the next request gets another.
    spare = undefined;
    check.begin(message, call);
    const verdict = judged(context.flowController, check, check.http.refusal);
    if (verdict instanceof Pending) {
      check.http.copyBytes();
      return replyWhenSettled(verdict, call, (settled) => check.reply(settled, call, false));
    }
    if (verdict.held !== undefined) call.releaseIfUndelivered(verdict.held);
    const reply = check.reply(verdict, call, call.copiesReply === true);
    check.http.releaseBytes();
    spare = check;
    return reply;
  };
}
