// What a limiter reads from a flow's labels: whose count it is, and how many tokens it wants.

import { type Labels, labelNumber, type Slots } from "../label.ts";
import type { Observer } from "../observe.ts";

/** Reported label, and Grant key, of a limiter without a key. */
const DEFAULT = "default";

export interface AskRule {
  readonly limitByLabelKey: string;
  readonly tokensLabelKey: string;
}

export class Ask {
  readonly #key: number;
  readonly #prefix: string;
  readonly #tokens: number;
  readonly #observer: Observer;

  constructor(rule: AskRule, slots: Slots, observer: Observer) {
    this.#key = rule.limitByLabelKey === "" ? -1 : slots.of(rule.limitByLabelKey);
    this.#prefix = `${rule.limitByLabelKey}:`;
    this.#tokens = rule.tokensLabelKey === "" ? -1 : slots.of(rule.tokensLabelKey);
    this.#observer = observer;
  }

  get keyed(): boolean {
    return this.#key >= 0;
  }

  /** Value of the key label; undefined when there is no key or the flow lacks the label. */
  value(labels: Labels): string | undefined {
    return this.#key < 0 ? undefined : labels.get(this.#key);
  }

  /** As reported. */
  label(value: string | undefined): string {
    return value === undefined ? DEFAULT : this.#prefix + value;
  }

  /** Whether a reported label is one of this limiter's. */
  owns(label: string): boolean {
    return this.keyed ? label.startsWith(this.#prefix) : label === DEFAULT;
  }

  /** The value in a reported label that is `owned`. */
  valueOf(label: string): string | undefined {
    return this.keyed ? label.slice(this.#prefix.length) : undefined;
  }

  /** 1 when the label is missing or is no number; `counted` says whether that is worth a count. */
  tokens(labels: Labels, counted: boolean): number {
    const text = this.#tokens < 0 ? undefined : labels.get(this.#tokens);
    if (text === undefined) return 1;
    const tokens = labelNumber(text);
    if (tokens === undefined && counted) this.#observer.odd("bad_label_number");
    return tokens ?? 1;
  }
}
