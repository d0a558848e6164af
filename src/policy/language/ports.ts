// Ports: how components are joined. An in-port reads a signal or a constant, an out-port names a signal;
// one that holds neither is unconnected.

import { arm, either, maybe, message, number, part, text, type ValueOf } from "./field.ts";

/** An empty constant reads 0. */
export const constantSignal = message("ConstantSignal", {
  special_value: either("constant", text({ oneOf: ["NaN", "+Inf", "-Inf"] })),
  value: either("constant", number()),
});
export type ConstantSignal = ValueOf<typeof constantSignal>;

export const inPort = message("InPort", {
  signal_name: either("value", text({ filled: true })),
  constant_signal: arm("value", constantSignal),
});
export type InPort = ValueOf<typeof inPort>;

export const outPort = message("OutPort", {
  signal_name: maybe(text({ filled: true })),
});
export type OutPort = ValueOf<typeof outPort>;

export const input = () => part(inPort);
export const output = () => part(outPort);

const SPECIAL: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  "+Inf": Number.POSITIVE_INFINITY,
  "-Inf": Number.NEGATIVE_INFINITY,
};

/** The reading of a constant; NaN is an invalid one. */
export function reading({ special_value: special, value }: ConstantSignal): number {
  return (special === undefined ? value : SPECIAL[special]) ?? 0;
}
