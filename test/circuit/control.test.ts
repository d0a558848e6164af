// Controllers: gradient, PID, ranges.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Configs } from "#circuit/plan.ts";
import { INVALID, type One, one } from "./one.ts";

const __ = INVALID;
const positive = fc.double({ noNaN: true, min: 1e-3, max: 1e3 });
const real = fc.double({ noNaN: true, min: -1e6, max: 1e6 });

function gradient(slope: number, min = -Number.MAX_VALUE, max = Number.MAX_VALUE): One {
  return one("gradient_controller", {
    parameters: { slope, min_gradient: min, max_gradient: max },
    manual_mode: false,
    manual_mode_config_key: "manual",
  });
}

test("gradient: invalid without its three inputs or with a setpoint of 0", () => {
  const all = { signal: 4, setpoint: 2, control_variable: 10 };
  const controller = gradient(1);
  assert.equal(controller.tick(all), 20);
  for (const port of Object.keys(all)) assert.equal(controller.tick({ ...all, [port]: __ }), __);
  assert.equal(controller.tick({ ...all, setpoint: 0 }), __);
  // The power is not a number.
  assert.equal(gradient(0.5).tick({ ...all, signal: -4 }), __);
});

test("gradient: slope, limits of the gradient, then limits of the output", () => {
  const inputs = { signal: 4, setpoint: 2, control_variable: 10 };
  assert.equal(gradient(-1).tick(inputs), 5);
  assert.equal(gradient(2).tick(inputs), 40);
  assert.equal(gradient(2, 0, 1.5).tick(inputs), 15);
  assert.equal(gradient(-2, 0.5, 1).tick(inputs), 5);
  assert.equal(gradient(1).tick({ ...inputs, max: 12 }), 12);
  assert.equal(gradient(1).tick({ ...inputs, max: 12, min: 13 }), 13);
});

test("gradient: manual mode passes the control variable as it is", () => {
  const controller = gradient(1);
  controller.configure({ manual: true });
  assert.equal(controller.tick({ control_variable: 3, max: 1 }), 3);
  assert.equal(controller.tick({ signal: 1, setpoint: 1 }), __);
  controller.configure({ manual: "maybe" });
  assert.equal(controller.tick({ signal: 2, setpoint: 1, control_variable: 3 }), 6);
});

test("gradient: valid and within its limits for all ordinary readings", () => {
  const slope = fc.double({ noNaN: true, min: -3, max: 3 });
  fc.assert(
    fc.property(positive, positive, positive, slope, (signal, setpoint, variable, by) => {
      const got = gradient(by, 0.5, 2).tick({ signal, setpoint, control_variable: variable });
      assert.ok(got >= 0.5 * variable && got <= 2 * variable);
    }),
  );
});

interface Gains {
  readonly kp?: number;
  readonly ki?: number;
  readonly kd?: number;
  readonly everyMs?: number;
  readonly patience?: number;
}

function pid({ kp = 0, ki = 0, kd = 0, everyMs, patience = 4 }: Gains): One {
  return one("pid_controller", {
    parameters: {
      kp,
      ki,
      kd,
      evaluation_interval: everyMs,
      reset_after_invalid_samples: patience,
    },
  });
}

function controlled(controller: One, signals: readonly number[], setpoint = 10, limits = {}) {
  return signals.map((signal) => controller.tick({ signal, setpoint, ...limits }));
}

test("pid: each part by itself", () => {
  assert.deepEqual(controlled(pid({ kp: 2 }), [5, 5, 7, 10]), [__, 10, 6, 0]);
  assert.deepEqual(controlled(pid({ ki: 0.5 }), [5, 5, 7, 10]), [__, 2.5, 4, 4]);
  assert.deepEqual(controlled(pid({ kd: 0.25 }), [5, 5, 7, 10, 10]), [__, 0, 0.5, 0.75, 0]);
});

test("pid: what limits take away does not wind up", () => {
  const controller = pid({ ki: 1 });
  assert.deepEqual(controlled(controller, [0, 0, 0, 0], 10, { max: 12 }), [__, 10, 12, 12]);
  assert.deepEqual(controlled(controller, [11], 10, { max: 12 }), [11]);
  assert.deepEqual(controlled(pid({ ki: 1 }), [0, 30], 10, { max: -30, min: -5 }), [__, -5]);
});

test("pid: holds its output over gaps, forgets after so many in a row", () => {
  const controller = pid({ ki: 1, kd: 1, patience: 3 });
  assert.deepEqual(controlled(controller, [0, 4, __, __]), [__, 6, 6, 6]);
  // Two gaps are not three: the integral goes on, the derivative from the last valid signal.
  assert.deepEqual(controlled(controller, [5, __, __, __, __]), [12, 12, 12, __, __]);
  assert.deepEqual(controlled(controller, [9]), [1]);
});

test("pid: once in every interval", () => {
  const controller = pid({ kp: 1, everyMs: 3_000 });
  assert.deepEqual(controlled(controller, [1, 2, 3, 4, 5, 6, 7]), [__, __, __, 6, 6, 6, 3]);
});

test("pid: an infinite sample passes", () => {
  const controller = pid({ kp: 1, ki: 1 });
  controlled(controller, [0, 0]);
  assert.deepEqual(controlled(controller, [-Infinity], 10, { max: 50 }), [50]);
  assert.deepEqual(controlled(controller, [10], 10), [10]);
});

test("pid: always valid on valid inputs", () => {
  const gain = fc.double({ noNaN: true, min: 0, max: 5 });
  fc.assert(
    fc.property(fc.array(real), gain, gain, gain, (signals, kp, ki, kd) => {
      const column = controlled(pid({ kp, ki, kd }), signals, 10, { max: 1e3, min: -1e3 });
      for (const got of column.slice(1)) assert.ok(got >= -1e3 && got <= 1e3);
    }),
  );
});

type Range = Configs["polynomial_range_function"]["parameters"];

function range(given: Partial<Range> = {}): One {
  return one("polynomial_range_function", {
    parameters: {
      start: { input: 0, output: 0 },
      end: { input: 10, output: 100 },
      degree: 1,
      clamp_to_datapoint: undefined,
      clamp_to_custom_values: undefined,
      continue_curve: undefined,
      ...given,
    },
  });
}

test("range: on, clamped to its points, clamped to others", () => {
  const inputs = [-5, 0, 5, 10, 15, __];
  assert.deepEqual(range().column(inputs), [-50, 0, 50, 100, 150, __]);
  assert.deepEqual(range({ continue_curve: true, degree: 2 }).column(inputs), [
    25,
    0,
    25,
    100,
    225,
    __,
  ]);
  assert.deepEqual(range({ clamp_to_datapoint: true }).column(inputs), [0, 0, 50, 100, 100, __]);
  const custom = { pre_start: -1, post_end: 7 };
  assert.deepEqual(range({ clamp_to_custom_values: custom }).column(inputs), [
    -1,
    0,
    50,
    100,
    7,
    __,
  ]);
  assert.deepEqual(range({ degree: 0.5 }).column([-5, 2.5]), [__, 50]);
});

test("range: points with one input are a step", () => {
  const step = range({ start: { input: 3, output: 1 }, end: { input: 3, output: 2 } });
  assert.deepEqual(step.column([2, 3, 4]), [1, 1, 2]);
});

test("range: between its points it stays between their outputs", () => {
  const degree = fc.double({ noNaN: true, min: 0.1, max: 8 });
  const way = fc.double({ noNaN: true, min: 0, max: 1 });
  fc.assert(
    fc.property(real, real, degree, way, (from, to, power, at) => {
      const curve = range({
        start: { input: 1, output: from },
        end: { input: -3, output: to },
        degree: power,
        clamp_to_datapoint: true,
      });
      const got = curve.tick({ input: 1 - 4 * at });
      const slack = 1e-9 * Math.max(1, Math.abs(from), Math.abs(to));
      assert.ok(got >= Math.min(from, to) - slack && got <= Math.max(from, to) + slack);
    }),
  );
});
