// Reads the input of a limiter from the labels of a flow: the key whose count applies, and the tokens that the flow wants.

import { CUT_MARK, cutText, MAX_SHOWN_BYTES } from "#base/text/cut.ts";
import { KeyHash } from "../counters/local/keys/key-hash.ts";
import { type LabelSlots, type Labels, labelNumber } from "../label.ts";
import type { Observer } from "../observer.ts";

/** Reported label, and grant key, of a limiter without a key. */
const DEFAULT = "default";

/** Values of up to this many UTF-16 units are short enough, since each unit takes at most three bytes. */
const SURELY_SHORT = Math.floor(MAX_SHOWN_BYTES / 3);

/** Hexadecimal digits of the hash. */
const DIGITS = 16;
/** The hash needs no secret seed: callers who find two values with one hash only share a limit with themselves. */
const SEED = [0x5bd1e995, 0x2545f491] as const;

export interface LimiterInputRule {
  /** Empty for a limiter without a key. */
  readonly limitByLabelKey: string;
  /** Empty where each flow costs one token. */
  readonly tokensLabelKey: string;
}

export class LimiterInput {
  readonly #keySlot: number;
  readonly #prefix: string;
  readonly #tokensSlot: number;
  readonly #observer: Observer;

  constructor(rule: LimiterInputRule, slots: LabelSlots, observer: Observer) {
    this.#keySlot = rule.limitByLabelKey === "" ? -1 : slots.of(rule.limitByLabelKey);
    this.#prefix = `${rule.limitByLabelKey}:`;
    this.#tokensSlot = rule.tokensLabelKey === "" ? -1 : slots.of(rule.tokensLabelKey);
    this.#observer = observer;
  }

  get keyed(): boolean {
    return this.#keySlot >= 0;
  }

  /**
   * The key: the value of the key label, shortened if it is too long to be shown. Undefined when there is no key label or
   * the flow lacks it.
   */
  value(labels: Labels): string | undefined {
    const value = this.#keySlot < 0 ? undefined : labels.get(this.#keySlot);
    return value === undefined || value.length <= SURELY_SHORT ? value : shortKey(value);
  }

  /** The label as decisions report it. A flow without the key has the default one. */
  label(labels: Labels, value: string | undefined): string {
    if (value === undefined) return DEFAULT;
    if (value.length > SURELY_SHORT) return this.#prefix + value;
    return labels.prefixed(this.#keySlot, this.#prefix);
  }

  /** True if a reported label is one of this limiter's. */
  owns(label: string): boolean {
    return label === DEFAULT || (this.keyed && label.startsWith(this.#prefix));
  }

  /** The key in a reported label that this limiter `owns`; undefined for the default key. */
  valueOf(label: string): string | undefined {
    return label === DEFAULT ? undefined : label.slice(this.#prefix.length);
  }

  /** Tokens that the flow wants: 1 when the label is not a number, which is counted; -1 without the label. */
  tokens(labels: Labels): number {
    if (this.#tokensSlot < 0) return 1;
    const text = labels.get(this.#tokensSlot);
    if (text === undefined) return -1;
    const tokens = labelNumber(text);
    if (tokens === undefined) this.#observer.anomaly("bad_label_number");
    return tokens ?? 1;
  }
}

/**
 * The value, or its beginning and a hash of all of it if it is too long to be shown. Decisions name their key, and a flow
 * is ended by that name. Different values stay different.
 */
function shortKey(value: string): string {
  const cut = cutText(value, MAX_SHOWN_BYTES - DIGITS);
  if (!cut.endsWith(CUT_MARK) || Buffer.byteLength(value) <= MAX_SHOWN_BYTES) return value;
  const hash = new KeyHash(...SEED);
  hash.of(value);
  return cut + hex(hash.lo) + hex(hash.hi);
}

function hex(word: number): string {
  return (word >>> 0).toString(16).padStart(DIGITS / 2, "0");
}
