// Numbers are compared and kept exactly.

import assert from "node:assert/strict";
import { test } from "node:test";
import { circuit, compiled, findings } from "../kit.ts";

test("64-bit integers are compared to the last digit, as numbers and as text", () => {
  const scaler = (least: string, most: string) =>
    `auto_scale: {auto_scaler: {scaling_backend: {kubernetes_replicas: {min_replicas: ${least}, max_replicas: ${most}, kubernetes_object_selector: {namespace: n, api_version: v, kind: k, name: x}}}, scaling_parameters: {scale_out_alerter: {alert_name: o}, scale_in_alerter: {alert_name: i}}}}`;
  const faults = (least: string, most: string) => findings(circuit(scaler(least, most)));
  assert.deepEqual(faults("9007199254740993", "'9007199254740993'"), []);
  assert.match(faults("9007199254740993", "9007199254740992")[0]?.wanted ?? "", /min_replicas/);
  assert.deepEqual(faults("1.0", "1e3"), []);
  // However they are written.
  for (const exact of ["9007199254740993.0", "9.007199254740993e15", "0x20000000000001"]) {
    assert.deepEqual(faults(exact, "9007199254740993"), [], exact);
    assert.match(faults(exact, "9007199254740992")[0]?.wanted ?? "", /min_replicas/, exact);
  }
  for (const bad of ["1.5", "1e19", "9007199254740993.5", "9223372036854775808", "1e99"]) {
    assert.match(faults("1", bad)[0]?.wanted ?? "", /^a whole number from -922.* \(int64\)$/, bad);
  }
});

test("a number that a double cannot hold is warned of, with what it is read as", () => {
  const capacity = (value: string) =>
    compiled(
      circuit(
        `variable: {constant_output: {value: ${value}}, out_ports: {output: {signal_name: A}}}`,
      ),
    ).warnings.map(({ text }) => text);
  for (const value of ["9007199254740993", "'9007199254740993'", "9007199254740993.0"]) {
    assert.match(capacity(value)[0] ?? "", /9007199254740993.* is read as 9007199254740992/, value);
  }
  for (const value of [
    "9007199254740992",
    "1e300",
    "0.1",
    "Infinity",
    "'NaN'",
    "18014398509481984",
  ])
    assert.deepEqual(
      capacity(value).filter((text) => text.includes("is read as")),
      [],
      value,
    );
});
