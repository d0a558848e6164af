// The weighted fair queue by itself: the order in which it serves requests.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type FairEntry, FairQueue, type Job } from "#flow/schedule/queue/fair-queue.ts";

interface Named extends Job {
  readonly name: string;
}

function request(over: Partial<Named> = {}): Named {
  return { workload: "w", priority: 1, fairness: undefined, tokens: 1, name: "", ...over };
}

/** Names of the requests in the order in which they are served. */
function served(queue: FairQueue<Named>): readonly string[] {
  const names: string[] = [];
  for (let place = queue.next(); place !== undefined; place = queue.next()) {
    names.push(place.job.name);
    queue.admit();
  }
  return names;
}

describe("the weighted fair queue", () => {
  it("serves requests of one flow in the order of their arrival", () => {
    const queue = new FairQueue<Named>();
    for (const name of ["a", "b", "c"]) queue.push(request({ name }));
    assert.deepEqual(served(queue), ["a", "b", "c"]);
  });

  it("keeps the order of a flow while its first request has its turn (D-11)", () => {
    const queue = new FairQueue<Named>();
    for (const name of ["a", "b"]) queue.push(request({ name }));
    assert.equal(queue.next()?.job.name, "a");
    queue.push(request({ name: "c" }));
    queue.admit();
    assert.deepEqual(served(queue), ["b", "c"]);
  });

  it("serves workloads in proportion to their priorities", () => {
    const queue = new FairQueue<Named>();
    for (let at = 0; at < 8; at++) {
      queue.push(request({ name: "low", workload: "low" }));
      queue.push(request({ name: "high", workload: "high", priority: 3 }));
    }
    const first = served(queue).slice(0, 8);
    assert.equal(first.filter((name) => name === "high").length, 6);
  });

  it("serves the fairness labels of a workload in turn, and shares the workload among them", () => {
    const queue = new FairQueue<Named>();
    for (let at = 0; at < 12; at++) queue.push(request({ name: "x", fairness: "x" }));
    for (let at = 0; at < 4; at++) queue.push(request({ name: "y", fairness: "y" }));
    for (let at = 0; at < 12; at++) queue.push(request({ name: "o", workload: "other" }));
    const first = served(queue).slice(0, 12);
    const count = (name: string) => first.filter((each) => each === name).length;
    assert.ok(Math.abs(count("x") - count("y")) <= 1, first.join(""));
    // Two labels do not give their workload twice the share of the other.
    assert.ok(Math.abs(count("o") - 6) <= 1, first.join(""));
  });

  it("charges a request for its tokens", () => {
    const queue = new FairQueue<Named>();
    for (let at = 0; at < 6; at++) {
      queue.push(request({ name: "big", workload: "big", tokens: 5 }));
      queue.push(request({ name: "small", workload: "small" }));
    }
    const order = served(queue);
    assert.equal(order.slice(0, 6).filter((name) => name === "small").length, 5);
  });

  it("keeps a turn whatever arrives, and gives it up when its request leaves", () => {
    const queue = new FairQueue<Named>();
    const first = queue.push(request({ name: "first" }));
    assert.equal(queue.next(), first);
    queue.push(request({ name: "urgent", workload: "urgent", priority: 100 }));
    assert.equal(queue.next(), first);
    queue.remove(first);
    assert.equal(queue.next()?.job.name, "urgent");
  });

  it("tells how many tokens a request overtook", () => {
    const queue = new FairQueue<Named>();
    const slow = queue.push(request({ name: "slow", tokens: 2 }));
    const fast = queue.push(request({ name: "fast", workload: "fast", priority: 9 }));
    assert.equal(queue.next(), fast);
    assert.equal(queue.preempted(fast, "all"), 2);
    queue.admit();
    assert.equal(queue.preempted(slow, "all"), -1);
    const behind = queue.push(request({ name: "behind" }));
    assert.equal(behind.behind, true);
    queue.next();
    queue.admit();
    assert.equal(queue.preempted(behind, "workload"), 0);
  });
});

type Step =
  | {
      readonly do: "push";
      readonly workload: number;
      readonly fairness: number;
      readonly tokens: number;
    }
  | { readonly do: "serve" }
  | { readonly do: "turn" }
  | { readonly do: "leave"; readonly which: number };

const STEP: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant("push" as const),
    workload: fc.integer({ min: 0, max: 3 }),
    fairness: fc.integer({ min: 0, max: 3 }),
    tokens: fc.integer({ min: 1, max: 5 }),
  }),
  fc.record({ do: fc.constant("serve" as const) }),
  fc.record({ do: fc.constant("turn" as const) }),
  fc.record({ do: fc.constant("leave" as const), which: fc.nat({ max: 50 }) }),
);

it("whatever arrives and leaves: no request is lost or served twice, and flows keep their order", () => {
  fc.assert(
    fc.property(fc.array(STEP, { maxLength: 200 }), (steps) => {
      const queue = new FairQueue<Named>();
      const waiting = new Map<string, FairEntry<Named>>();
      const order = new Map<string, string[]>();
      let arrivals = 0;
      const serve = () => {
        const place = queue.next();
        if (place === undefined) return;
        const { name, workload, fairness } = place.job;
        const flow = order.get(`${workload}/${fairness}`) ?? [];
        assert.equal(name, flow.shift());
        waiting.delete(name);
        queue.admit();
      };
      for (const step of steps) {
        if (step.do === "push") {
          const name = String(arrivals++);
          const { workload, fairness, tokens } = step;
          const priority = 2 ** workload;
          const given = {
            name,
            workload: `${workload}`,
            fairness: `${fairness}`,
            tokens,
            priority,
          };
          waiting.set(name, queue.push(given));
          const flow = order.get(`${workload}/${fairness}`) ?? [];
          order.set(`${workload}/${fairness}`, [...flow, name]);
        } else if (step.do === "serve") serve();
        else if (step.do === "turn") queue.next();
        else {
          const [name, place] = [...waiting][step.which % Math.max(1, waiting.size)] ?? [];
          if (name === undefined || place === undefined) continue;
          queue.remove(place);
          waiting.delete(name);
          for (const [key, flow] of order)
            order.set(
              key,
              flow.filter((each) => each !== name),
            );
        }
        assert.equal(queue.size, waiting.size);
      }
      while (waiting.size > 0) serve();
      assert.deepEqual([queue.size, queue.flows, queue.next()], [0, 0, undefined]);
    }),
  );
});
