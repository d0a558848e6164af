// A controller and an agent in virtual time: the circuit of one policy ticks, its decisions reach the agent as the bytes that
// a store would hold, and the agent judges flows.

import { seededChance } from "#base/chance.ts";
import type { QueryAnswer } from "#circuit/component.ts";
import { CircuitRunner } from "#circuit/runner.ts";
import type { Flow, Verdict } from "#flow/flow.ts";
import { Pending } from "#flow/flow.ts";
import { createFlowController, type FlowController } from "#flow/flow-controller.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { readBatch } from "#sync/follow/batch.ts";
import { decisionEntries } from "#sync/publish/decision.ts";
import { configEntries } from "#sync/publish/policy.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { samples } from "#telemetry/metrics/samples.ts";
import { claims, flowOf } from "../../kit/sluice/flow.ts";
import { compiled } from "../../policy/kit.ts";
import { VirtualClock } from "../schedule/kit.ts";

type Fields = Readonly<Record<string, unknown>>;

const GROUP = "default";
const POLICY = "p";

/** One flow that was asked about. */
export interface AskedFlow {
  readonly askedAt: number;
  verdict: Verdict | undefined;
  answeredAt: number;
  leave(): void;
}

export class World {
  readonly clock = new VirtualClock();
  readonly #start = this.clock.now();
  readonly #metrics = new FlowMetrics({ agent_group: GROUP });
  readonly #book: Rulebook;
  readonly #controller: FlowController;
  readonly #runner: CircuitRunner;
  /** Answers to the queries of the circuit, by component id. */
  #answers: ReadonlyMap<string, QueryAnswer> = new Map();
  #asks: { readonly id: string; readonly identity: string }[] = [];
  #policy: CompiledPolicy;
  #nextTick = this.clock.now();
  #ticking = true;
  #revision = 0;

  constructor(policy: Fields, dynamic: Fields, maxKeys: number) {
    const { clock } = this;
    const context = { clock, chance: seededChance(5), observer: this.#metrics, maxKeys };
    this.#book = new Rulebook(GROUP, context);
    this.#controller = createFlowController(this.#book, context);
    this.#runner = new CircuitRunner({
      ask: ({ componentId: id }, identity) => void this.#asks.push({ id, identity }),
      alert: () => undefined,
      fault: (id, _kind, thrown) => {
        throw new Error(`component ${id} failed`, { cause: thrown });
      },
    });
    this.#policy = this.#run(policy, dynamic);
    this.advanceTo(0);
  }

  /** Milliseconds since the start. */
  get now(): number {
    return this.clock.now() - this.#start;
  }

  /** Lets time pass. Ticks that are due then have taken place. */
  advanceTo(at: number): void {
    const until = this.#start + at;
    while (this.#ticking && this.#nextTick <= until) {
      this.clock.advanceTo(this.#nextTick);
      this.#tick();
      this.#nextTick += this.#policy.circuit?.intervalMs ?? 1_000;
    }
    this.clock.advanceTo(until);
  }

  ask(labels: Readonly<Record<string, string>>, over: Partial<Flow>): AskedFlow {
    const flow = flowOf({ controlPoint: "here", labels: claims(labels), ...over });
    const askedAt = this.now;
    const judged = this.#controller.judge(flow);
    const asked: AskedFlow = {
      askedAt,
      verdict: undefined,
      answeredAt: askedAt,
      leave: () => (judged instanceof Pending ? judged.cancel() : undefined),
    };
    const settle = (verdict: Verdict) => {
      asked.verdict = verdict;
      asked.answeredAt = this.now;
    };
    if (judged instanceof Pending) {
      judged.whenSettled(settle, (thrown) => {
        throw thrown;
      });
    } else settle(judged);
    return asked;
  }

  /** Ends a flow as its caller does: the number of slots that were returned, and whether its estimate was settled. */
  end(
    { decisions, reservationId }: Verdict,
    cost: number | undefined,
    status: number,
  ): { readonly slots: number; readonly settled: boolean } {
    const refs = decisions.flatMap(({ component, detail }) => {
      if (!("requestId" in detail) || detail.requestId === "") return [];
      const { policyName, policyHash, componentId } = component;
      const { label, requestId, consumed: tokens } = detail;
      return [{ policyName, policyHash, componentId, label, requestId, tokens }];
    });
    const returns = this.#controller.end(refs);
    if (returns instanceof Pending) throw new Error("counts in process are never awaited");
    const slots = returns.filter(({ returned }) => returned).length;
    const settled =
      reservationId !== "" &&
      this.#controller.settle({ reservationId, cost, status }) === "settled";
    return { slots, settled };
  }

  /** Another dynamic configuration, from the next tick on. */
  configure(dynamic: Fields): void {
    this.#runner.configure(dynamic as JsonObject);
  }

  /** Another version of the policy. Its circuit decides from the next tick on. */
  edit(policy: Fields): void {
    const before = this.#policy;
    this.#policy = this.#run(policy, {});
    const kept = configEntries(this.#policy);
    this.#publish(new Map([...configEntries(before).keys()].map((key) => [key, kept.get(key)])));
  }

  withdraw(what: string): void {
    const { decisions } = this.#runner;
    const keys =
      what === "decisions"
        ? [...decisions.values()].flatMap((one) => [...decisionEntries(this.#policy, one).keys()])
        : [...configEntries(this.#policy).keys()];
    this.#publish(new Map(keys.map((key) => [key, undefined])));
  }

  setTicking(on: boolean): void {
    this.#ticking = on;
    this.#nextTick = this.clock.now();
  }

  setAnswers(answers: Fields): void {
    this.#answers = new Map(
      Object.entries(answers).map(([id, given]) => [
        id,
        typeof given === "number"
          ? { kind: "value", value: given }
          : { kind: "by_label", values: new Map(Object.entries(given as Record<string, number>)) },
      ]),
    );
  }

  /** The sum of the samples with this name and these labels: `name` or `name{label=value,…}`. */
  metric(text: string): number {
    const [, name = "", inner = ""] = /^(\w+)(?:\{(.*)\})?$/.exec(text) ?? [];
    const wanted = inner === "" ? [] : inner.split(",").map((pair) => pair.split("="));
    let sum = 0;
    for (const { labels, value } of samples([this.#metrics], (one) => one === name)) {
      if (wanted.every(([key = "", of]) => labels[key] === of)) sum += value;
    }
    return sum;
  }

  /** Estimates that are not settled yet. */
  get reservations(): number {
    return this.#controller.reservations;
  }

  #run(document: Fields, dynamic: Fields): CompiledPolicy {
    const policy = compiled(JSON.stringify(document), POLICY);
    const { circuit } = policy;
    this.#publish(configEntries(policy));
    this.#runner.replace(circuit, dynamic as JsonObject);
    return policy;
  }

  #tick(): void {
    const decisions = this.#runner.tick(this.clock.wall());
    this.#publish(new Map(decisions.flatMap((one) => [...decisionEntries(this.#policy, one)])));
    const asks = this.#asks;
    this.#asks = [];
    for (const { id, identity } of asks) {
      const answer = this.#answers.get(id);
      if (answer !== undefined) this.#runner.answer(identity, answer);
    }
  }

  /** Undefined deletes a key. */
  #publish(entries: ReadonlyMap<string, Uint8Array | undefined>): void {
    if (entries.size === 0) return;
    this.#revision += 1;
    const revision = this.#revision;
    const written = { revision, created: revision, leased: false };
    const { rules, numbers, notRun, faults } = readBatch(GROUP, {
      revision,
      puts: [...entries].flatMap(([key, value]) =>
        value === undefined ? [] : [{ key, value, ...written }],
      ),
      deletes: [...entries].flatMap(([key, value]) => (value === undefined ? [key] : [])),
    });
    const refused = this.#book.apply({ rules, numbers });
    if (notRun.size + faults.size + refused.length > 0)
      throw new Error(`not applied: ${JSON.stringify([[...notRun], [...faults], refused])}`);
  }
}
