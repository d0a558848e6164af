// Components with state: their outputs over several ticks.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { INVALID, type One, one } from "./one.ts";

const __ = INVALID;
const real = fc.double({ noNaN: true, min: -1e6, max: 1e6 });
const gappy = fc.array(
  fc.oneof({ weight: 3, arbitrary: real }, { weight: 1, arbitrary: fc.constant(__) }),
);

function ticks(component: One, count: number): readonly number[] {
  return Array.from({ length: count }, () => component.tick());
}

test("pulse: true first, whole ticks, at least one", () => {
  const slow = one(
    "pulse_generator",
    { true_for: 30_000, false_for: 20_000 },
    { intervalMs: 10_000 },
  );
  assert.equal(ticks(slow, 10).join(""), "1110011100");
  const fast = one("pulse_generator", { true_for: 0, false_for: 1_200 });
  assert.equal(ticks(fast, 6).join(""), "100100");
});

test("holder: takes the next one when its time is over", () => {
  const column = (readings: readonly number[]) =>
    one("holder", { hold_for: 4_000 }).column(readings);
  assert.deepEqual(column([1, 2, 3, 4, 6, 7, 8]), [1, 1, 1, 1, 6, 6, 6]);
  assert.deepEqual(column([1, __, 3, __, __]), [1, 1, 1, 1, __]);
  assert.deepEqual(one("holder", { hold_for: 0 }).column([1, 2, __]), [1, 2, __]);
});

test("holder: reset releases the value at once and captures the next", () => {
  const holder = one("holder", { hold_for: 9_000 });
  assert.equal(holder.tick({ input: 1 }), 1);
  assert.equal(holder.tick({ input: 2, reset: 0 }), 1);
  assert.equal(holder.tick({ input: 3, reset: 1 }), 3);
  assert.equal(holder.tick({ reset: 1 }), __);
  assert.equal(holder.tick({ input: 4 }), 4);
});

test("holder: a value is held for its whole time", () => {
  fc.assert(
    fc.property(gappy, fc.integer({ min: 1, max: 5 }), (readings, length) => {
      const column = one("holder", { hold_for: length * 1_000 }).column(readings);
      for (let at = 0; at < readings.length; at++) {
        if (Number.isNaN(column[at])) {
          assert.equal(readings[at], __);
          continue;
        }
        const held = column.slice(at, at + length);
        assert.deepEqual(new Set(held), new Set([readings[at]]));
        at += length - 1;
      }
    }),
  );
});

test("extrapolator: not a tick longer than allowed", () => {
  const column = (ms: number) =>
    one("extrapolator", { parameters: { max_extrapolation_interval: ms } }).column([
      __,
      5,
      __,
      __,
      __,
    ]);
  assert.deepEqual(column(0), [__, 5, __, __, __]);
  assert.deepEqual(column(1_999), [__, 5, 5, __, __]);
  assert.deepEqual(column(2_000), [__, 5, 5, 5, __]);
});

function decider(operator: string, trueFor = 0, falseFor = 0): One {
  return one("decider", { operator, true_for: trueFor, false_for: falseFor });
}

test("decider: each operator, and false for invalid operands", () => {
  const operators = { gt: ">", lt: "<", gte: ">=", lte: "<=", eq: "===", neq: "!==" };
  for (const [name, sign] of Object.entries(operators)) {
    for (const [lhs, rhs] of [
      [1, 2],
      [2, 1],
      [2, 2],
      [0, -0],
      [-Infinity, Infinity],
    ] as const) {
      const wanted = { "<": lhs < rhs, ">": lhs > rhs, "===": lhs === rhs }[sign.slice(0, 3)];
      const either = { ">=": lhs >= rhs, "<=": lhs <= rhs, "!==": lhs !== rhs }[sign];
      assert.equal(
        decider(name).tick({ lhs, rhs }),
        Number(wanted ?? either),
        `${lhs} ${name} ${rhs}`,
      );
    }
    assert.equal(decider(name).tick({ lhs: 1 }), 0);
    assert.equal(decider(name).tick({ rhs: 1 }), 0);
    assert.equal(decider(name).tick(), 0);
  }
  assert.throws(() => decider("GT"), /unknown comparison/);
});

test("decider: a single differing tick does not change the decision", () => {
  const run = (trueFor: number, falseFor: number, pattern: string) => {
    const component = decider("gt", trueFor, falseFor);
    return [...pattern].map((each) => component.tick({ lhs: Number(each), rhs: 0 })).join("");
  };
  assert.equal(run(2_000, 1_000, "1101110111001001"), "0000011111100000");
  assert.equal(run(0, 2_000, "1011001000"), "1111111110");
  assert.equal(run(1_500, 0, "0111101"), "0001100");
});

test("decider: flips only after the comparison has held long enough", () => {
  const lengths = fc.integer({ min: 0, max: 4 });
  fc.assert(
    fc.property(fc.array(fc.boolean()), lengths, lengths, (holds, up, down) => {
      const component = decider("gt", up * 1_000, down * 1_000);
      let before = 0;
      for (const [at, hold] of holds.entries()) {
        const decided = component.tick({ lhs: Number(hold), rhs: 0 });
        const length = decided === 1 ? up : down;
        const since = holds.slice(Math.max(0, at - length), at + 1);
        if (decided !== before) {
          assert.ok(since.length === length + 1 && since.every((each) => Number(each) === decided));
        }
        before = decided;
      }
    }),
  );
});

function sma(windowMs: number, early: boolean): One {
  return one("sma", { parameters: { sma_window: windowMs, valid_during_warmup: early } });
}

test("sma: gaps repeat the mean, a window of gaps clears it", () => {
  const column = sma(5_000, true).column([__, 0, 1, 2, 3, 4, 5, 6, __, 0]);
  assert.deepEqual(column, [__, 0, 0.5, 1, 1.5, 2, 3, 4, 4, 3.6]);
  assert.deepEqual(sma(2_000, false).column([4, 6, __, __, __, 8, __, 9]), [
    __,
    5,
    5,
    __,
    __,
    __,
    __,
    8.5,
  ]);
  // Windows are rounded up: never none at all.
  assert.deepEqual(sma(1, false).column([4, 6, __]), [4, 6, __]);
});

test("sma: the mean of the last valid readings, infinities leave no trace", () => {
  const any = fc.array(fc.oneof(real, fc.constantFrom(Infinity, -Infinity)));
  fc.assert(
    fc.property(any, fc.integer({ min: 1, max: 6 }), (readings, window) => {
      const column = sma(window * 1_000, true).column(readings);
      for (const [at, got] of column.entries()) {
        const last = readings.slice(Math.max(0, at + 1 - window), at + 1);
        const mean = last.reduce((sum, each) => sum + each, 0) / last.length;
        assert.equal(got, mean);
      }
    }),
  );
});

interface EmaSettings {
  readonly window?: number;
  readonly warmup?: number;
  readonly early?: boolean;
  readonly onMin?: number;
  readonly onMax?: number;
}

function ema({
  window = 3,
  warmup = 2,
  early = false,
  onMin = 1,
  onMax = 1,
}: EmaSettings = {}): One {
  return one("ema", {
    parameters: {
      ema_window: window * 1_000,
      warmup_window: warmup * 1_000,
      correction_factor_on_min_envelope_violation: onMin,
      correction_factor_on_max_envelope_violation: onMax,
      valid_during_warmup: early,
    },
  });
}

test("ema: warm-up, steady state, gaps in a row only", () => {
  assert.deepEqual(ema().column([4, 6, 8, __, __, 9]), [__, 5, 6.5, 6.5, 6.5, 7.75]);
  assert.deepEqual(ema().column([4, 6, __, __, __, 1, 3]), [__, 5, 5, 5, __, __, 2]);
  assert.deepEqual(ema({ early: true }).column([4, __, 6, 8]), [4, __, 6, 7]);
  // Scattered gaps do not add up.
  const scattered = ema({ window: 2, warmup: 1 }).column([1, __, 1, __, 1, __, 1, __]);
  assert.deepEqual(
    scattered,
    scattered.map(() => 1),
  );
});

test("ema: the corrected output is used for the next one", () => {
  const component = ema({ window: 1, warmup: 1, onMin: 3, onMax: 0.5 });
  assert.equal(component.tick({ input: 8, max_envelope: 6 }), 4);
  assert.equal(component.tick({ input: 2, min_envelope: 5 }), 6);
  // Lowered by the upper envelope, then raised by the lower one.
  assert.equal(component.tick({ input: 8, max_envelope: 6, min_envelope: 5 }), 12);
  const held = ema({ window: 5, warmup: 1, onMax: 0.5 });
  held.tick({ input: 8 });
  assert.equal(held.tick({ max_envelope: 1 }), 4);
  assert.equal(held.tick({ max_envelope: 1 }), 2);
});

test("ema: infinities of both signs restart it", () => {
  const column = ema({ window: 3, warmup: 1 }).column([1, Infinity, -Infinity, 5, 7]);
  assert.deepEqual(column, [1, Infinity, __, 5, 6]);
});

test("ema and sma stay between the smallest and the largest input", () => {
  fc.assert(
    fc.property(gappy, fc.integer({ min: 1, max: 5 }), (readings, window) => {
      const valid = readings.filter((each) => !Number.isNaN(each));
      const [low, high] = [Math.min(...valid), Math.max(...valid)];
      const slack = 1e-9 * Math.max(1, Math.abs(low), Math.abs(high));
      for (const component of [sma(window * 1_000, true), ema({ window, early: true })]) {
        for (const got of component.column(readings)) {
          assert.ok(Number.isNaN(got) || (got >= low - slack && got <= high + slack));
        }
      }
    }),
  );
});

function integrator(initial = 0, everyMs?: number): One {
  return one("integrator", { initial_value: initial, evaluation_interval: everyMs });
}

test("integrator: from the second tick on, gaps add nothing, reset is 0, max before min", () => {
  assert.deepEqual(integrator(5).column([1, 1, __, 2]), [5, 6, 6, 8]);
  const component = integrator(5);
  component.tick({ input: 1 });
  assert.equal(component.tick({ input: 1, reset: 1 }), 0);
  assert.equal(component.tick({ input: 9, max: 4 }), 4);
  assert.equal(component.tick({ input: -9, min: -2 }), -2);
  assert.equal(component.tick({ input: 1, max: 1, min: 3 }), 3);
});

test("integrator: once in every interval, counted in ticks", () => {
  const column = integrator(0, 2_500).column(Array.from({ length: 9 }, () => 1));
  assert.deepEqual(column, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
  assert.deepEqual(integrator(0, 0).column([1, 1, 1]), [0, 1, 2]);
});

test("differentiator: real distances", () => {
  const column = (readings: readonly number[]) =>
    one("differentiator", { window: 3_000 }).column(readings);
  assert.deepEqual(column([1, 3, 5, 5, 5]), [__, 2, 2, 1, 0]);
  assert.deepEqual(column([__, 1, __, 5, __, __, 7]), [__, __, __, 2, __, __, __]);
  fc.assert(
    fc.property(real, real, fc.integer({ min: 2, max: 30 }), (start, slope, length) => {
      const line = Array.from({ length }, (_, at) => start + slope * at);
      for (const got of column(line).slice(1)) {
        assert.ok(Math.abs(got - slope) <= 1e-6 * Math.max(1, Math.abs(slope)));
      }
    }),
  );
});

function generator(...steps: readonly (readonly [number, number])[]): One {
  return one("signal_generator", {
    parameters: {
      steps: steps.map(([value, seconds]) => ({
        target_output: { value },
        duration: seconds * 1_000,
      })),
    },
  });
}

test("signal generator: moves forward, stops, moves backward, ends at its last target", () => {
  const component = generator([0, 1], [10, 2], [10, 1], [40, 3]);
  const walk = (inputs: Record<string, number>, count: number) =>
    Array.from({ length: count }, () => component.tick(inputs));
  assert.deepEqual(walk({}, 2), [0, 0]);
  assert.equal(component.output("at_start"), 1);
  assert.deepEqual(walk({ forward: 1 }, 5), [0, 5, 10, 10, 20]);
  assert.deepEqual(walk({ forward: 1, backward: 1 }, 1), [20]);
  assert.deepEqual(walk({ forward: 1 }, 3), [30, 40, 40]);
  assert.equal(component.output("at_end"), 1);
  assert.deepEqual(walk({ backward: 1 }, 2), [30, 20]);
  assert.equal(component.output("at_end"), 0);
  assert.deepEqual(walk({ forward: 1, reset: 1 }, 1), [0]);
  assert.equal(component.output("at_start"), 1);
});

test("signal generator: never beyond its targets, and never invalid between finite ones", () => {
  const step = fc.tuple(real, fc.integer({ min: 0, max: 4 }));
  const way = fc.constantFrom({ forward: 1 }, { backward: 1 }, { reset: 1 }, {});
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 5 }), fc.array(way), (steps, walk) => {
      const component = generator(...steps);
      const targets = steps.map(([value]) => value);
      const [low, high] = [Math.min(...targets), Math.max(...targets)];
      const slack = 1e-9 * Math.max(1, Math.abs(low), Math.abs(high));
      for (const inputs of walk) {
        const got = component.tick(inputs);
        assert.ok(got >= low - slack && got <= high + slack);
      }
    }),
  );
});
