// Ports, which connect components. An in-port reads a signal or a constant, an out-port writes a signal; an empty
// port is unconnected.

import {
  arm,
  type Builders,
  message,
  nested,
  number,
  part,
  type Rules,
  text,
  type ValueOf,
  type Values,
} from "./field.ts";

/** An empty constant is 0. */
export const constantSignal = message("ConstantSignal", {
  special_value: text(1, { oneOf: ["NaN", "+Inf", "-Inf"] })
    .oneOf("constant")
    .about("`NaN` (invalid) or an infinity."),
  value: number(2, { special: "all" }).oneOf("constant").about("The number."),
});
export type ConstantSignal = ValueOf<typeof constantSignal>;

export const inPort = message("InPort", {
  signal_name: text(1, { filled: true, name: true })
    .oneOf("value")
    .about("Signal of the same circuit that the port reads."),
  constant_signal: arm(2, "value", constantSignal).about("Constant that the port reads."),
});
export type InPort = ValueOf<typeof inPort>;

export const outPort = message("OutPort", {
  signal_name: text(1, { filled: true, name: true })
    .optional()
    .about("Signal that the port writes. A signal has one writer in its circuit."),
});
export type OutPort = ValueOf<typeof outPort>;

export const input = (tag: number, words: string) => part(tag, inPort).about(words);
export const output = (tag: number, words: string) => part(tag, outPort).about(words);

export function ins<B extends Builders>(tag: number, ports: B, rules: Rules<Values<B>> = {}) {
  return nested(tag, "Ins", ports, rules).about("In-ports.");
}

export function outs<B extends Builders>(tag: number, ports: B) {
  return nested(tag, "Outs", ports).about("Out-ports.");
}

/** The out-ports of a component with one output. */
export const single = (tag: number, words: string) => outs(tag, { output: output(1, words) });

const SPECIAL: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  "+Inf": Number.POSITIVE_INFINITY,
  "-Inf": Number.NEGATIVE_INFINITY,
};

/** The value of a constant; NaN is invalid. */
export function reading({ special_value: special, value }: ConstantSignal): number {
  return (special === undefined ? value : SPECIAL[special]) ?? 0;
}
