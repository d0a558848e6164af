// The proxy's door: envoy.service.auth.v3.Authorization/Check. The hottest of all, so its request is read
// in place and, unless a limiter has to wait, answered in the same turn.

import { Pending } from "#flow/flow.ts";
import type { UnaryHandler } from "#serve/handler.ts";
import { type Door, wait } from "./door.ts";
import { ProxyCheck } from "./proxy-check.ts";

export function extAuthz(door: Door): UnaryHandler {
  let spare: ProxyCheck | undefined;
  return (message, call) => {
    const check = spare ?? new ProxyCheck(door);
    // Whatever throws or waits on the way: nobody else gets this one.
    spare = undefined;
    check.begin(message, call);
    const judged = door.mind.judge(check);
    if (judged instanceof Pending) {
      check.http.keep();
      return wait(judged, call.signal(), (verdict) => check.reply(verdict, call, false));
    }
    const reply = check.reply(judged, call, call.copiesReply === true);
    check.http.release();
    spare = check;
    return reply;
  };
}
