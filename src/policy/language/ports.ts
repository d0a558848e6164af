// Ports, which connect components. An in-port reads a signal or a constant, an out-port writes a signal; an empty
// port is unconnected.

import {
  about,
  arm,
  either,
  type Field,
  type Message,
  maybe,
  message,
  number,
  part,
  text,
  type ValueOf,
} from "./field.ts";

/** An empty constant is 0. */
export const constantSignal = message("ConstantSignal", {
  special_value: about(
    "`NaN` (invalid) or an infinity.",
    either("constant", text({ oneOf: ["NaN", "+Inf", "-Inf"] })),
  ),
  value: about("The number.", either("constant", number({ special: "all" }))),
});
export type ConstantSignal = ValueOf<typeof constantSignal>;

export const inPort = message("InPort", {
  signal_name: about(
    "Signal of the same circuit that the port reads.",
    either("value", text({ filled: true, name: true })),
  ),
  constant_signal: about("Constant that the port reads.", arm("value", constantSignal)),
});
export type InPort = ValueOf<typeof inPort>;

export const outPort = message("OutPort", {
  signal_name: about(
    "Signal that the port writes. A signal has one writer in its circuit.",
    maybe(text({ filled: true, name: true })),
  ),
});
export type OutPort = ValueOf<typeof outPort>;

export const input = (words: string): Field<InPort | undefined> => about(words, part(inPort));
export const output = (words: string): Field<OutPort | undefined> => about(words, part(outPort));

export const ins = <V>(of: Message<V>): Field<V | undefined> => about("In-ports.", part(of));
export const outs = <V>(of: Message<V>): Field<V | undefined> => about("Out-ports.", part(of));

const SPECIAL: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  "+Inf": Number.POSITIVE_INFINITY,
  "-Inf": Number.NEGATIVE_INFINITY,
};

/** The value of a constant; NaN is invalid. */
export function reading({ special_value: special, value }: ConstantSignal): number {
  return (special === undefined ? value : SPECIAL[special]) ?? 0;
}
