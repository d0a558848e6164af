// Runs one golden case: every step in virtual time around the real circuit and flow engine, and every difference between
// what it wants and what it got.

import assert from "node:assert/strict";
import type { FlowCase, Step } from "./read.ts";
import { type Shown, shownVerdict } from "./shown.ts";
import { type AskedFlow, World } from "./world.ts";

type Fields = Readonly<Record<string, unknown>>;

/** After the last step the circuit ticks for so long, and then nothing happens for the longer time, ms. */
const REST_MS = 60_000;
const SILENCE_MS = 86_400_000;

/** A flow whose answer is compared when it is there. */
interface Expected {
  readonly step: number;
  readonly asked: AskedFlow;
  readonly gives: unknown;
}

export function runCase({ policy, dynamic, agent, steps }: FlowCase): void {
  const run = new Run(new World(policy, dynamic, Number(agent["max_keys"] ?? 100)));
  for (const [at, step] of steps.entries()) run.step(step, at);
  run.finish();
}

class Run {
  readonly #world: World;
  readonly #expected: Expected[] = [];
  readonly #named = new Map<string, AskedFlow[]>();

  constructor(world: World) {
    this.#world = world;
  }

  step(step: Step, at: number): void {
    const world = this.#world;
    world.advanceTo(step.at * 1_000);
    const { gives = {} } = step;
    if ("ask" in step) this.#ask(step, at);
    else if ("end" in step) {
      same(at, this.#end(step), gives);
    } else if ("leave" in step) {
      for (const asked of this.#flows(step["leave"])) asked.leave();
    } else if ("configure" in step) world.configure(step["configure"] as Fields);
    else if ("answer" in step) world.setAnswers(step["answer"] as Fields);
    else if ("edit" in step) world.edit(step["edit"] as Fields);
    else if ("withdraw" in step) world.withdraw(String(step["withdraw"]));
    else if ("controller" in step) world.setTicking(step["controller"] === "runs");
    else same(at, this.#state(step["state"] as Fields), step["state"]);
  }

  /** Every flow was answered as it should be, and nothing is left that could still happen. */
  finish(): void {
    const world = this.#world;
    world.advanceTo(world.now + REST_MS);
    world.setTicking(false);
    world.advanceTo(world.now + SILENCE_MS);
    for (const { step, asked, gives } of this.#expected) {
      const { verdict, askedAt, answeredAt } = asked;
      if (typeof gives === "string") {
        const passed = verdict?.accepted ? "passes" : "refuses";
        same(step, verdict === undefined ? "waits" : passed, gives);
        continue;
      }
      const got = verdict === undefined ? "waits" : shownVerdict(verdict, answeredAt - askedAt);
      same(step, got, gives);
    }
    assert.equal(world.clock.alarms, 0, "alarms that are left");
    assert.equal(world.reservations, 0, "reservations that are left");
  }

  #ask(step: Step, at: number): void {
    const { ask, as, deadline, ramp, control_point, service, size, times = 1, gives = {} } = step;
    for (let count = 0; count < Number(times); count++) {
      const now = this.#world.clock.now();
      const asked = this.#world.ask(labelsOf(ask), {
        ...(deadline === undefined ? {} : { deadline: now + Number(deadline) * 1_000 }),
        ...(ramp === undefined ? {} : { rampMode: ramp === true }),
        ...(control_point === undefined ? {} : { controlPoint: String(control_point) }),
        ...(service === undefined ? {} : { services: [String(service)] }),
        ...(size === undefined ? {} : { size: Number(size) }),
      });
      this.#expected.push({ step: at, asked, gives });
      if (as !== undefined)
        this.#named.set(String(as), [...(this.#named.get(String(as)) ?? []), asked]);
    }
  }

  #state(wanted: Fields): Shown {
    const world = this.#world;
    const waiting = [...this.#named].flatMap(([name, flows]) =>
      flows.some(({ verdict }) => verdict === undefined) ? [name] : [],
    );
    const metrics = (wanted["metrics"] ?? {}) as Fields;
    const all = {
      waiting: waiting.join(" "),
      reservations: world.reservations,
      alarms: world.clock.alarms,
      metrics: Object.fromEntries(
        Object.keys(metrics).map((name) => [name, Number(world.metric(name).toFixed(6))]),
      ),
    };
    return Object.fromEntries(Object.entries(all).filter(([name]) => name in wanted));
  }

  /** Ends all flows of a name: how many slots that returned, and whether it settled an estimate. */
  #end({ end, cost, status = 0 }: Step): Shown {
    let slots = 0;
    let settled = false;
    for (const { verdict } of this.#flows(end)) {
      if (verdict === undefined) throw new Error(`flow ${end} waits`);
      const ended = this.#world.end(verdict, cost as number | undefined, Number(status));
      slots += ended.slots;
      settled ||= ended.settled;
    }
    return { ...(slots > 0 ? { slots } : {}), ...(settled ? { settled } : {}) };
  }

  #flows(name: unknown): readonly AskedFlow[] {
    const asked = this.#named.get(String(name));
    if (asked === undefined) throw new Error(`there is no flow ${name}`);
    return asked;
  }
}

function labelsOf(given: unknown): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(given ?? {}).map(([key, value]) => [key, String(value)]),
  );
}

function same(step: number, got: unknown, wanted: unknown): void {
  assert.deepEqual(got, wanted, `step ${step} differs: got ${JSON.stringify(got)}`);
}
