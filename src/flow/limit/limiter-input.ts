// What a limiter reads from a flow's labels: the key whose count applies, and how many tokens the flow wants.

import { type LabelSlots, type Labels, labelNumber } from "../label.ts";
import type { Observer } from "../observer.ts";

/** Reported label, and grant key, of a limiter without a key. */
const DEFAULT = "default";

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

  /** Value of the key label; undefined when there is no key or the flow lacks the label. */
  value(labels: Labels): string | undefined {
    return this.#keySlot < 0 ? undefined : labels.get(this.#keySlot);
  }

  /** The label as decisions report it. A flow without the key has the default one. */
  label(labels: Labels, value: string | undefined): string {
    return value === undefined ? DEFAULT : labels.prefixed(this.#keySlot, this.#prefix);
  }

  /** Whether a reported label is one of this limiter's. */
  owns(label: string): boolean {
    return label === DEFAULT || (this.keyed && label.startsWith(this.#prefix));
  }

  /** The value in a reported label that this limiter `owns`; undefined for the default key. */
  valueOf(label: string): string | undefined {
    return label === DEFAULT ? undefined : label.slice(this.#prefix.length);
  }

  /** Tokens that the flow wants: 1 when the label is no number, which is counted unless `peek`; -1 without the label. */
  tokens(labels: Labels, peek: boolean): number {
    if (this.#tokensSlot < 0) return 1;
    const text = labels.get(this.#tokensSlot);
    if (text === undefined) return -1;
    const tokens = labelNumber(text);
    if (tokens === undefined && !peek) this.#observer.anomaly("bad_label_number");
    return tokens ?? 1;
  }
}
