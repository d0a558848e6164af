// Components as short texts, and compiling them, for tests of the compiler.

import assert from "node:assert/strict";
import { circuit, compiled, lines } from "../kit.ts";

export const constant = (value: number) => `{constant_signal: {value: ${value}}}`;

export const signal = (name: string) => `{signal_name: ${name}}`;

export const to = (name: string) => `out_ports: {output: ${signal(name)}}`;

export const variable = (name: string, value = 1) =>
  `variable: {constant_output: {value: ${value}}, ${to(name)}}`;

export const inverter = (from: string, name: string) =>
  `inverter: {in_ports: {input: ${signal(from)}}, ${to(name)}}`;

export const alerter = (from: string, name = "a") =>
  `alerter: {in_ports: {signal: ${signal(from)}}, parameters: {alert_name: ${name}}}`;

export const query = (text: string, name = "Q") =>
  `query: {promql: {query_string: ${text}, ${to(name)}}}`;

export const nested = (parts: string) => `nested_circuit: {${parts}}`;

export const ingress = (port: string, name: string) =>
  `{nested_signal_ingress: {port_name: ${port}, out_ports: {signal: ${signal(name)}}}}`;

/** The only finding of a circuit. */
export function fault(...components: readonly string[]): string {
  const [only = "none", ...more] = lines(circuit(...components));
  assert.deepEqual(more, []);
  return only;
}

export function planOf(text: string) {
  const { circuit: plan } = compiled(text);
  assert.ok(plan);
  return plan;
}
