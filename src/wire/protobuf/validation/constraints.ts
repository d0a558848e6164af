// Implements each validation rule for a single value. A rule without an implementation throws when rules are compiled,
// so that none is silently skipped.

import { isIP, isIPv4, isIPv6 } from "node:net";
import { RE2JS } from "re2js";

/** A constraint on one value, and its wording in error messages: "a number of at least 1". */
export interface Constraint {
  readonly wanted: string;
  readonly holds: (value: unknown) => boolean;
}

/** The rules that are set on one field, by proto name. Values are scalars, lists of scalars, or messages. */
export type Rules = ReadonlyMap<string, unknown>;

/** Makes the constraint of one rule from the rule's value. */
type MakeConstraint = (rule: unknown) => Constraint;
/** Maps values to numbers that compare as the values do. */
type Order = (value: unknown) => number | bigint;

/** Makes the constraints of a field from its rules, by the kind of rule in FieldRules. */
export const CONSTRAINTS: Readonly<
  Record<string, (rules: Rules, numbers: readonly number[]) => Constraint[]>
> = {
  float: numeric,
  double: numeric,
  int32: numeric,
  int64: numeric,
  uint32: numeric,
  uint64: numeric,
  sint32: numeric,
  sint64: numeric,
  fixed32: numeric,
  fixed64: numeric,
  sfixed32: numeric,
  sfixed64: numeric,
  bool: (rules) => each(rules, "bool", { const: (rule) => same("a boolean", rule) }),
  string: (rules) => each(rules, "string", STRING),
  bytes: (rules) => each(rules, "bytes", BYTES),
  enum: enumerated,
  any: (rules) => each(rules, "any", ANY),
  duration: (rules) => ordered(without(rules, "required"), "duration", nanoseconds),
  timestamp: (rules) => ordered(without(rules, "required"), "timestamp", nanoseconds),
};

// --- numbers, durations, timestamps ---

function numeric(rules: Rules): Constraint[] {
  return ordered(rules, "number", (value) => (typeof value === "bigint" ? value : Number(value)));
}

/** A `google.protobuf.Duration` or `Timestamp` in nanoseconds. */
function nanoseconds(value: unknown): bigint {
  const { seconds, nanos } = value as { readonly seconds: bigint; readonly nanos: number };
  return seconds * 1_000_000_000n + BigInt(nanos);
}

/** Rules on ordered values. If the upper bound is below the lower one, values outside the interval are valid (PGV). */
function ordered(rules: Rules, noun: string, order: Order): Constraint[] {
  const bound = (name: string): number | bigint | undefined =>
    rules.has(name) ? order(rules.get(name)) : undefined;
  const [gt, gte, lt, lte] = [bound("gt"), bound("gte"), bound("lt"), bound("lte")];
  const above = (value: number | bigint): boolean =>
    (gt === undefined || value > gt) && (gte === undefined || value >= gte);
  const below = (value: number | bigint): boolean =>
    (lt === undefined || value < lt) && (lte === undefined || value <= lte);
  const low = gt ?? gte;
  const high = lt ?? lte;
  const outside = low !== undefined && high !== undefined && high < low;
  const constraints = each(without(rules, "gt", "gte", "lt", "lte"), noun, {
    const: (rule) => among(`the only allowed ${noun}`, [rule], order),
    in: (rule) => among(`a ${noun} from the list of allowed ones`, listed(rule), order),
    not_in: (rule) => not(among(`a ${noun} that is not on the list`, listed(rule), order)),
  });
  if (low === undefined && high === undefined) return constraints;
  const words = [
    ...(gt === undefined ? [] : [`more than ${gt}`]),
    ...(gte === undefined ? [] : [`at least ${gte}`]),
    ...(lt === undefined ? [] : [`less than ${lt}`]),
    ...(lte === undefined ? [] : [`at most ${lte}`]),
  ];
  const unit = order === nanoseconds ? " ns" : "";
  return [
    ...constraints,
    {
      wanted: `a ${noun} of ${words.join(outside ? " or " : " and ")}${unit}`,
      holds: (value) => {
        const at = order(value);
        return outside ? above(at) || below(at) : above(at) && below(at);
      },
    },
  ];
}

function enumerated(rules: Rules, numbers: readonly number[]): Constraint[] {
  return each(rules, "enum", {
    const: (rule) => same("the only allowed value", rule),
    defined_only: (rule) =>
      rule === true ? among("a value that the enum defines", numbers) : anything(),
    in: (rule) => among("a value from the list of allowed ones", listed(rule)),
    not_in: (rule) => not(among("a value that is not on the list", listed(rule))),
  });
}

// --- text ---

const characters = (value: unknown): number => [...String(value)].length;
const bytesOf = (value: unknown): number => Buffer.byteLength(String(value));
const HOST = /^(?=.{1,253}$)(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))*$/i;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const STRING: Readonly<Record<string, MakeConstraint>> = {
  const: (rule) => same("the only allowed string", rule),
  len: (rule) => sized(`a string of ${count(rule, "character")}`, characters, rule, rule),
  min_len: (rule) => sized(`a string of at least ${count(rule, "character")}`, characters, rule),
  max_len: (rule) => sized(`a string of at most ${count(rule, "character")}`, characters, 0, rule),
  len_bytes: (rule) => sized(`a string of ${count(rule, "byte")}`, bytesOf, rule, rule),
  min_bytes: (rule) => sized(`a string of at least ${count(rule, "byte")}`, bytesOf, rule),
  max_bytes: (rule) => sized(`a string of at most ${count(rule, "byte")}`, bytesOf, 0, rule),
  pattern: (rule) => {
    const regex = RE2JS.compile(String(rule));
    return text(`a string that matches ${rule}`, (value) => regex.matcher(value).find());
  },
  prefix: (rule) => text(`a string that starts with ${rule}`, (v) => v.startsWith(String(rule))),
  suffix: (rule) => text(`a string that ends with ${rule}`, (v) => v.endsWith(String(rule))),
  contains: (rule) => text(`a string that contains ${rule}`, (v) => v.includes(String(rule))),
  not_contains: (rule) =>
    text(`a string that does not contain ${rule}`, (v) => !v.includes(String(rule))),
  in: (rule) => among("a string from the list of allowed ones", listed(rule)),
  not_in: (rule) => not(among("a string that is not on the list", listed(rule))),
  hostname: () => text("a host name", (value) => HOST.test(value)),
  ip: () => text("an IP address", (value) => isIP(value) !== 0),
  ipv4: () => text("an IPv4 address", isIPv4),
  ipv6: () => text("an IPv6 address", isIPv6),
  address: () => text("a host name or IP address", (v) => isIP(v) !== 0 || HOST.test(v)),
  uri: () => text("an absolute URI", (value) => URL.canParse(value)),
  uri_ref: () => text("a URI reference", (value) => URL.canParse(value, "relative:/")),
  uuid: () => text("a UUID", (value) => UUID.test(value)),
};

const length = (value: unknown): number => (value as Uint8Array).length;
const buffer = (value: unknown): Buffer => Buffer.from(value as Uint8Array);
const latin1 = (value: unknown): string => buffer(value).toString("latin1");

const BYTES: Readonly<Record<string, MakeConstraint>> = {
  const: (rule) => binary("the only allowed bytes", (value) => value.equals(buffer(rule))),
  len: (rule) => sized(count(rule, "byte"), length, rule, rule),
  min_len: (rule) => sized(`at least ${count(rule, "byte")}`, length, rule),
  max_len: (rule) => sized(`at most ${count(rule, "byte")}`, length, 0, rule),
  prefix: (rule) => binary("bytes with a given prefix", (v) => latin1(v).startsWith(latin1(rule))),
  suffix: (rule) => binary("bytes with a given suffix", (v) => latin1(v).endsWith(latin1(rule))),
  contains: (rule) =>
    binary("bytes that contain a given sequence", (value) => value.includes(buffer(rule))),
  in: (rule) =>
    binary("bytes from the list of allowed ones", (v) =>
      listed(rule).some((r) => v.equals(buffer(r))),
    ),
  not_in: (rule) =>
    binary("bytes that are not on the list", (v) => !listed(rule).some((r) => v.equals(buffer(r)))),
};

const typeUrl = (value: unknown): string => (value as { readonly typeUrl: string }).typeUrl;

const ANY: Readonly<Record<string, MakeConstraint>> = {
  required: anything,
  in: (rule) => ({
    wanted: "a message type from the list of allowed ones",
    holds: (value) => listed(rule).includes(typeUrl(value)),
  }),
  not_in: (rule) => ({
    wanted: "a message type that is not on the list",
    holds: (value) => !listed(rule).includes(typeUrl(value)),
  }),
};

// --- building blocks ---

/** A number with its noun: "1 byte", "2 bytes". */
export function count(amount: unknown, noun: string): string {
  return `${amount} ${noun}${Number(amount) === 1 ? "" : "s"}`;
}

function each(
  rules: Rules,
  kind: string,
  table: Readonly<Record<string, MakeConstraint>>,
): Constraint[] {
  return [...rules].map(([name, rule]) => {
    const make = table[name];
    if (make === undefined) throw new Error(`validation rule ${kind}.${name} is not supported`);
    return make(rule);
  });
}

function without(rules: Rules, ...names: readonly string[]): Rules {
  return new Map([...rules].filter(([name]) => !names.includes(name)));
}

function anything(): Constraint {
  return { wanted: "anything", holds: () => true };
}

function not({ wanted, holds }: Constraint): Constraint {
  return { wanted, holds: (value) => !holds(value) };
}

function same(wanted: string, rule: unknown): Constraint {
  return { wanted, holds: (value) => value === rule };
}

function among(wanted: string, rules: readonly unknown[], order?: Order): Constraint {
  const allowed = new Set(order === undefined ? rules : rules.map(order));
  return { wanted, holds: (value) => allowed.has(order === undefined ? value : order(value)) };
}

function sized(
  wanted: string,
  size: (value: unknown) => number,
  least: unknown,
  most: unknown = Number.POSITIVE_INFINITY,
): Constraint {
  const [low, high] = [Number(least), Number(most)];
  return { wanted, holds: (value) => size(value) >= low && size(value) <= high };
}

function text(wanted: string, holds: (value: string) => boolean): Constraint {
  return { wanted, holds: (value) => holds(String(value)) };
}

function binary(wanted: string, holds: (value: Buffer) => boolean): Constraint {
  return { wanted, holds: (value) => holds(buffer(value)) };
}

function listed(rule: unknown): readonly unknown[] {
  return Array.isArray(rule) ? rule : [];
}
