// Dynamic configuration as components read it: a JSON object in which a key with dots also refers to a nested
// member. Values of the wrong form are ignored and reported once per change.

import type { CircuitSink, Overrides } from "./component.ts";
import { SPECIAL_VALUES } from "./plan.ts";

export type DynamicConfig = Readonly<Record<string, unknown>>;

const TRUE: ReadonlySet<unknown> = new Set(["1", "t", "T", "true", "TRUE", "True"]);
const FALSE: ReadonlySet<unknown> = new Set(["0", "f", "F", "false", "FALSE", "False"]);

export function overridesOf(
  config: DynamicConfig | undefined,
  report: CircuitSink["ignoredOverride"],
): Overrides {
  const read = <T>(key: string, wanted: string, parse: (value: unknown) => T | undefined) => {
    const value = valueAt(config, key);
    if (value === undefined || value === null) return undefined;
    const parsed = parse(value);
    if (parsed === undefined) report(key, wanted);
    return parsed;
  };
  return {
    number: (key) => read(key, "{value: number} or {special_value: NaN, +Inf or -Inf}", constant),
    boolean: (key) => read(key, "true or false", boolean),
    texts: (key) => read(key, "a list of texts", texts),
  };
}

/** The value of the whole key, or else of its parts between dots as nested members. An empty key has no value. */
export function valueAt(config: unknown, key: string): unknown {
  if (key === "") return undefined;
  const whole = memberOf(config, key);
  if (whole !== undefined) return whole;
  return key.split(".").reduce(memberOf, config);
}

function memberOf(value: unknown, key: string): unknown {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}

function constant(given: unknown): number | undefined {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return undefined;
  const { value, special_value: special, ...rest } = given as Readonly<Record<string, unknown>>;
  if (Object.keys(rest).length > 0 || (value !== undefined && special !== undefined)) {
    return undefined;
  }
  if (special !== undefined) {
    const known = typeof special === "string" && Object.hasOwn(SPECIAL_VALUES, special);
    return known ? SPECIAL_VALUES[special] : undefined;
  }
  if (value === undefined) return 0;
  // Numbers beyond the range of doubles (`1e999`) are parsed as infinite, which is surely unintended.
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

function boolean(value: unknown): boolean | undefined {
  if (typeof value === "boolean") return value;
  if (typeof value === "number") return value !== 0;
  if (TRUE.has(value)) return true;
  return FALSE.has(value) ? false : undefined;
}

function texts(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  return value.every((item) => typeof item === "string") ? value : undefined;
}
