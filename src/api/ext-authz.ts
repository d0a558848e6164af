// envoy.service.auth.v3.Authorization/Check, which proxies call. The hottest operation: the request is read in
// place and, unless a limiter has to wait, answered in the same turn.

import type { UnaryHandler } from "#base/handler.ts";
import { Pending } from "#flow/flow.ts";
import type { OperationContext } from "./context.ts";
import { ProxyCheck } from "./fast-path/proxy-check.ts";
import { SpareChecks } from "./fast-path/spare-checks.ts";
import { judged, replyWhenSettled } from "./reply/verdict.ts";

export function extAuthz(context: OperationContext): UnaryHandler {
  const spares = new SpareChecks(() => new ProxyCheck(context));
  return (message, call) => {
    const check = spares.take();
    check.begin(message, call);
    const verdict = judged(context.flowController, check, check.http.refusal);
    if (verdict instanceof Pending) {
      check.http.copyBytes();
      return replyWhenSettled(verdict, call, (settled) => {
        const reply = check.reply(settled, call, false);
        spares.put(check);
        return reply;
      });
    }
    if (verdict.held !== undefined) call.releaseIfUndelivered(verdict.held);
    const reply = check.reply(verdict, call, call.copiesReply === true);
    spares.put(check);
    return reply;
  };
}
