// Which members of the baggage of checked requests an agent believes. Clients of a service choose their baggage unless the
// proxy removes it, so an agent may be told to believe only some members, or none.

import { MAX_BAGGAGE_BYTES } from "./baggage.ts";

/** The keys of `flow_control.baggage` have the same names. */
export interface BaggageSettings {
  /** False ignores the header. */
  readonly enabled: boolean;
  /** The members that become labels; empty for all. */
  readonly members: readonly string[];
}

export class BaggageTrust {
  readonly enabled: boolean;
  /** Length of the longest header that is read. */
  readonly maxBytes: number;
  readonly #members: ReadonlySet<string>;

  constructor({ enabled, members }: BaggageSettings, maxBytes = MAX_BAGGAGE_BYTES) {
    this.enabled = enabled;
    this.maxBytes = maxBytes;
    this.#members = new Set(members);
  }

  believes(name: string): boolean {
    return this.#members.size === 0 || this.#members.has(name);
  }
}

export const EVERY_MEMBER: BaggageSettings = { enabled: true, members: [] };
