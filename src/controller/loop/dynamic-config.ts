// The dynamic configuration in force for one policy. A configuration with an invalid value is refused as a whole and the last
// valid one stays, because applying it in part could do harm.

import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { dynamicKeys, unfitValues } from "#policy/dynamic.ts";

const NO_REASONS: ReadonlyMap<string, string> = new Map();

/** Length of a value in a message, in UTF-16 units. */
const LONGEST_VALUE = 60;

/** Reasons why values of a dynamic configuration are invalid, by key. */
export function unfitReasons(
  { document }: Pick<CompiledPolicy, "document">,
  config: JsonObject | undefined,
): ReadonlyMap<string, string> {
  if (config === undefined) return NO_REASONS;
  return new Map(
    unfitValues(dynamicKeys(document), config).map(({ key, wanted, value }) => [
      key,
      `wanted ${wanted}, got ${shorten(jsonOf(value))}`,
    ]),
  );
}

/** The result of examining a proposed configuration. */
export interface DynamicConfigOutcome {
  /** The configuration in force from then on; undefined for the policy's own values. */
  readonly inForce: JsonObject | undefined;
  /** Reasons why the proposed configuration was refused, by key; empty if it was accepted. */
  readonly refused: ReadonlyMap<string, string>;
  /** Identifies the refusal; undefined for none. */
  readonly refusal: string | undefined;
}

/** Accepts or refuses dynamic configurations of one policy, and keeps the one in force. */
export class DynamicConfigGate {
  #state: DynamicConfigOutcome = { inForce: undefined, refused: NO_REASONS, refusal: undefined };

  /** Reasons why the last configuration was refused, by key. */
  get refused(): ReadonlyMap<string, string> {
    return this.#state.refused;
  }

  /**
   * Examines a configuration for a version of the policy without changing anything. After a refusal the configuration in
   * force stays, if it is valid for that version.
   */
  examine(policy: CompiledPolicy, proposed: JsonObject | undefined): DynamicConfigOutcome {
    const refused = unfitReasons(policy, proposed);
    if (refused.size === 0) return { inForce: proposed, refused, refusal: undefined };
    const { inForce } = this.#state;
    const stays = inForce !== undefined && unfitReasons(policy, inForce).size === 0;
    return {
      inForce: stays ? inForce : undefined,
      refused,
      refusal: JSON.stringify([proposed, ...refused]),
    };
  }

  /** Puts an outcome in force. Returns whether its refusal has not been reported yet. */
  accept(outcome: DynamicConfigOutcome): boolean {
    const isNew = outcome.refusal !== undefined && outcome.refusal !== this.#state.refusal;
    this.#state = outcome;
    return isNew;
  }
}

/** Numbers beyond the range of doubles (`1e999`) are shown as Infinity, which JSON would show as null. */
function jsonOf(value: unknown): string {
  const text = JSON.stringify(value, (_, each: unknown) => {
    const isInfinite = typeof each === "number" && !Number.isFinite(each);
    return isInfinite ? `\0${each}` : each;
  });
  return (text ?? "nothing").replaceAll(/"\\u0000(-?Infinity|NaN)"/g, "$1");
}

function shorten(text: string): string {
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`;
}
