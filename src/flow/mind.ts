// The mind as the doors see it: ask whether a flow may pass, and end one that did.

import { judge, type World } from "./check.ts";
import { endSlot, type SlotRef, type SlotReturn } from "./end.ts";
import type { Flow, Pending, Verdict } from "./flow.ts";
import type { Observer } from "./observe.ts";
import type { Rulebook } from "./rulebook.ts";

export interface Mind {
  judge(flow: Flow): Verdict | Pending<Verdict>;
  end(refs: readonly SlotRef[]): readonly SlotReturn[];
  readonly observer: Observer;
}

/** A mind that judges by whatever plan the book holds when a flow arrives. */
export function mindOf(book: Rulebook, world: World): Mind {
  return {
    judge: (flow) => judge(book.plan, flow, world),
    end: (refs) => refs.map((ref) => endSlot(book, ref)),
    observer: world.observer,
  };
}
