// Findings name the line, the column and the path of what is wrong.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { formatPath } from "#policy/document/tree.ts";
import { CONSTANT_PORTS, circuit, findings, lines, rateLimiter } from "../kit.ts";

describe("places", () => {
  test("a key in a wrong place says where it belongs, and a number for a port how it is written", () => {
    const text = [
      "circuit:",
      "  resources: {}",
      "  components:",
      "    - rate_limiter: {}",
      "    - flow_control:",
      "        rate_limiter:",
      "          in_ports: {bucket_capacity: 10, fill_amount: {value: 1}}",
      "          interval: 60s",
      "          parameters: {interval: 60s, selectors: [{control_point: ingress}], in_ports: {}, x: 1}",
      "          selectors: [{control_point: ingress}]",
    ].join("\n");
    const at = "circuit.components[1].flow_control.rate_limiter";
    const belongs = (key: string, message: string, place: string) =>
      `wanted a key of ${message}, got the unknown key "${key}", which belongs ${place}`;
    const found = lines(text).map((line) => line.replace(/^p\.yaml:\d+:\d+: /, ""));
    assert.deepEqual(found.slice(0, -1), [
      `circuit.resources: ${belongs("resources", "Circuit", "at the top of the document")}`,
      `circuit.components[0].rate_limiter: ${belongs("rate_limiter", "Component", "under flow_control")}`,
      `${at}.in_ports.bucket_capacity: wanted an object, which is {constant_signal: {value: 10}} for this number, got the number 10`,
      `${at}.in_ports.fill_amount.value: ${belongs("value", "InPort", "under constant_signal")}`,
      `${at}.interval: ${belongs("interval", "RateLimiter", "under parameters")}`,
      `${at}.parameters.selectors: ${belongs("selectors", "RateLimiter.Parameters", "further out, in rate_limiter")}`,
      `${at}.parameters.in_ports: ${belongs("in_ports", "RateLimiter.Parameters", "further out, in rate_limiter")}`,
    ]);
    assert.match(
      found.at(-1) ?? "",
      /parameters\.x: wanted a key of RateLimiter\.Parameters: .*, got the unknown key "x"$/,
    );
  });

  test("a key that belongs in several places at the same depth is not given one of them", () => {
    const [line = ""] = lines("circuit: {components: [{flow_control: {scheduler: {}}}]}");
    assert.match(line, /flow_control\.scheduler: wanted a key of FlowControl/);
    assert.doesNotMatch(line, /belongs/);
  });

  test("line, column and path of a value, of a missing one and of an unknown key", () => {
    const text = [
      "circuit:",
      "  components:",
      "    - flow_control:",
      "        rate_limiter:",
      "          in_ports: {bucket_capacity: {constant_signal: {value: 1}}}",
      "          parameters:",
      "            interval: 1m",
      "            continous_fill: true",
      "          selectors: [{control_point: ingress}]",
    ].join("\n");
    const at = "circuit.components[0].flow_control.rate_limiter";
    assert.deepEqual(lines(text), [
      `p.yaml:5:21: ${at}.in_ports.fill_amount: wanted a value: fill_amount is required, got nothing`,
      `p.yaml:7:23: ${at}.parameters.interval: wanted a duration in seconds with the suffix s, such as 10s or 0.5s, got "1m"`,
      `p.yaml:8:13: ${at}.parameters.continous_fill: wanted a key of RateLimiter.Parameters; did you mean continuous_fill?, got the unknown key "continous_fill"`,
    ]);
  });

  test("a misspelt required key is one finding, not two", () => {
    const found = findings(circuit(rateLimiter(CONSTANT_PORTS, "parameters: {intervall: 1s}")));
    assert.deepEqual(
      found.map(({ path }) => path),
      ["circuit.components[0].flow_control.rate_limiter.parameters.intervall"],
    );
    assert.match(found[0]?.wanted ?? "", /did you mean interval\?/);
  });

  test("long values are cut", () => {
    const [line = ""] = lines(`circuit: {evaluation_interval: ${"x".repeat(10_000)}}`);
    assert.ok(line.length < 300, String(line.length));
  });

  test("paths quote keys that are not identifiers", () => {
    assert.equal(formatPath(["a", 0, "b-c", "d/e", ""]), 'a[0].b-c["d/e"][""]');
  });
});

/** A pod scaler with this constant, and with other parts of its object than these. */
