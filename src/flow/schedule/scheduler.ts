// A scheduler: flows that its gate does not let through at once wait in a queue, by workload. What the gate counts (tokens
// of buckets, slots, a share of the load) is all that distinguishes the kinds.

import type { Component, Decision, Flow, Grant } from "../flow.ts";
import { Pending } from "../flow.ts";
import type { Labels } from "../label.ts";
import type { Limiter } from "../limit/stage-member.ts";
import type { Observer } from "../observer.ts";
import type { LimiterNumbers, WorkloadDetail } from "../rules.ts";
import type { FrontEnd, Ticket } from "./front-end.ts";
import type { Gate } from "./gate.ts";
import type { Desk, Lines, Overtook, Waiter } from "./queue/lines.ts";

export class Scheduler<G extends Gate = Gate> implements Limiter, Desk {
  readonly component: Component;
  readonly gate: G;
  readonly #frontEnd: FrontEnd;
  readonly #lines: Lines;
  readonly #observer: Observer;

  constructor(component: Component, frontEnd: FrontEnd, gate: G, lines: Lines, observer: Observer) {
    this.component = component;
    this.gate = gate;
    this.#frontEnd = frontEnd;
    this.#lines = lines;
    this.#observer = observer;
  }

  /** Whether a flow that wants no tokens passes without asking the gate. */
  protected get freeOfCharge(): boolean {
    return true;
  }

  /** The answer without any wait: a flow that would have to wait is refused. */
  peek(flow: Flow, labels: Labels, now: number): Decision {
    const ticket = this.#frontEnd.ticket(labels, flow.deadline, now, this.gate.estimates);
    return this.gate.peek(labels, ticket, now);
  }

  take(flow: Flow, labels: Labels, now: number): Decision | Pending<Decision> {
    const { gate } = this;
    const ticket = this.#frontEnd.ticket(labels, flow.deadline, now, gate.estimates);
    if (ticket.lacksTokens) this.#observer.missingLabel(this.component, "tokens");
    gate.arrived?.(ticket, now);
    const key = gate.key(labels);
    if (key !== undefined && ticket.tokens === 0 && this.freeOfCharge) {
      return this.#decided(free(gate, labels, ticket), ticket);
    }
    // Whoever comes while others wait stands behind them.
    const first =
      key !== undefined && this.#lines.isOpen(key) ? undefined : gate.take(labels, ticket, now);
    if (key !== undefined && this.#waits(first, labels, ticket, now)) {
      const arrival = { labels, ticket, now, size: flow.size ?? sizeOf(flow) };
      const place = this.#lines.wait(key, this, arrival, first);
      if (place !== undefined) return place;
    }
    if (first instanceof Pending) {
      return first.chain<Decision>((late) => this.#decided(late, ticket));
    }
    return this.#decided(first ?? gate.refusal(labels, ticket), ticket);
  }

  undo(grant: Grant): void {
    this.gate.undo(grant);
    this.freed(grant);
  }

  /** Capacity that a flow had taken is free again, so another flow of its key may pass. */
  protected freed(grant: Grant): void {
    this.#lines.poke(this.gate.keyOf(grant));
  }

  decide(numbers: LimiterNumbers | undefined): void {
    this.gate.decide(numbers);
    this.#lines.pokeAll();
  }

  showGauges(): void {
    this.gate.showGauges?.();
  }

  queued(): void {
    this.#observer.queued(this.component);
  }

  report(waiter: Waiter, passed: boolean, now: number, overtook: Overtook | undefined): void {
    const { workload, tokens } = waiter.ticket;
    this.#observer.scheduled(this.component, {
      workload,
      tokens,
      passed,
      queued: true,
      waitedMs: Math.max(0, now - waiter.since),
      overtook: overtook?.all,
      overtookAlike: overtook?.alike,
    });
  }

  /** Whether a flow may be let through later, when it was not at once. */
  #waits(
    first: ReturnType<Gate["take"]> | undefined,
    labels: Labels,
    ticket: Ticket,
    now: number,
  ): boolean {
    const { patienceMs: left } = ticket;
    if (left <= 0) return false;
    if (first === undefined || first instanceof Pending) return true;
    const wait = { labels, ticket, left, attempts: 1, aheadMs: 0 };
    return this.gate.retryIn(first, wait, now) !== undefined;
  }

  /** A flow that was decided without a queue. */
  #decided(decision: Decision<WorkloadDetail>, ticket: Ticket): Decision<WorkloadDetail> {
    const passed = !decision.dropped;
    // Without a priority nobody scheduled it: it lacks its key, or all flows pass.
    if (passed && decision.detail.priority === 0) return decision;
    const { workload, tokens } = ticket;
    const detail = { workload, tokens, passed, queued: false, waitedMs: 0 };
    this.#observer.scheduled(this.component, {
      ...detail,
      overtook: undefined,
      overtookAlike: undefined,
    });
    return decision;
  }
}

/** The decision about a flow that costs nothing. */
function free(gate: Gate, labels: Labels, ticket: Ticket): Decision<WorkloadDetail> {
  return { ...gate.refusal(labels, ticket), outcome: "granted", dropped: false };
}

/** Bytes that a flow holds while it waits. Of text that is not ASCII it is half. */
function sizeOf({ labels, http }: Flow): number {
  let size = http?.body.length ?? 0;
  labels.each((name, value) => {
    size += name.length + value.length;
  });
  return size;
}
