// What each validation rule demands of one value. A rule that is not here is refused when rules are
// compiled, so that none is silently skipped.

import { isIP, isIPv4, isIPv6 } from "node:net";
import { RE2JS } from "re2js";

/** One demand: its words, for the one who is refused, and whether a value meets it. */
export interface Check {
  readonly want: string;
  readonly holds: (value: unknown) => boolean;
}

/** The rules that are set on one field, by proto name: scalars, lists of them, messages. */
export type Rules = ReadonlyMap<string, unknown>;

type Make = (rule: unknown) => Check;
type Order = (value: unknown) => number | bigint;

/** Checks by the name of the rule's kind in FieldRules, for kinds that judge one value by itself. */
export const CHECKS: Readonly<
  Record<string, (rules: Rules, numbers: readonly number[]) => Check[]>
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

function numeric(rules: Rules): Check[] {
  return ordered(rules, "number", (value) => (typeof value === "bigint" ? value : Number(value)));
}

/** A `google.protobuf.Duration` or `Timestamp` on one scale. */
function nanoseconds(value: unknown): bigint {
  const { seconds, nanos } = value as { readonly seconds: bigint; readonly nanos: number };
  return seconds * 1_000_000_000n + BigInt(nanos);
}

/** Rules over an order. An upper bound below the lower one asks for a value outside of both. */
function ordered(rules: Rules, noun: string, order: Order): Check[] {
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
  const checks = each(without(rules, "gt", "gte", "lt", "lte"), noun, {
    const: (rule) => among(`the one ${noun} that is allowed`, [rule], order),
    in: (rule) => among(`a ${noun} of the list`, listed(rule), order),
    not_in: (rule) => not(among(`a ${noun} not of the list`, listed(rule), order)),
  });
  if (low === undefined && high === undefined) return checks;
  const words = [
    ...(gt === undefined ? [] : [`more than ${gt}`]),
    ...(gte === undefined ? [] : [`at least ${gte}`]),
    ...(lt === undefined ? [] : [`less than ${lt}`]),
    ...(lte === undefined ? [] : [`at most ${lte}`]),
  ];
  const unit = order === nanoseconds ? " ns" : "";
  return [
    ...checks,
    {
      want: `a ${noun} of ${words.join(outside ? " or " : " and ")}${unit}`,
      holds: (value) => {
        const at = order(value);
        return outside ? above(at) || below(at) : above(at) && below(at);
      },
    },
  ];
}

function enumerated(rules: Rules, numbers: readonly number[]): Check[] {
  return each(rules, "enum", {
    const: (rule) => same("the one value that is allowed", rule),
    defined_only: (rule) =>
      rule === true ? among("a value that the enum defines", numbers) : anything(),
    in: (rule) => among("a value of the list", listed(rule)),
    not_in: (rule) => not(among("a value not of the list", listed(rule))),
  });
}

// --- text ---

const characters = (value: unknown): number => [...String(value)].length;
const bytesOf = (value: unknown): number => Buffer.byteLength(String(value));
const HOST = /^(?=.{1,253}$)(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))*$/i;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const STRING: Readonly<Record<string, Make>> = {
  const: (rule) => same("the one string that is allowed", rule),
  len: (rule) => sized(`a string of ${rule} characters`, characters, rule, rule),
  min_len: (rule) => sized(`a string of at least ${rule} characters`, characters, rule),
  max_len: (rule) => sized(`a string of at most ${rule} characters`, characters, 0, rule),
  len_bytes: (rule) => sized(`a string of ${rule} bytes`, bytesOf, rule, rule),
  min_bytes: (rule) => sized(`a string of at least ${rule} bytes`, bytesOf, rule),
  max_bytes: (rule) => sized(`a string of at most ${rule} bytes`, bytesOf, 0, rule),
  pattern: (rule) => {
    const regex = RE2JS.compile(String(rule));
    return text(`a string that matches ${rule}`, (value) => regex.matcher(value).find());
  },
  prefix: (rule) => text(`a string that starts with ${rule}`, (v) => v.startsWith(String(rule))),
  suffix: (rule) => text(`a string that ends with ${rule}`, (v) => v.endsWith(String(rule))),
  contains: (rule) => text(`a string with ${rule} in it`, (v) => v.includes(String(rule))),
  not_contains: (rule) => text(`a string without ${rule} in it`, (v) => !v.includes(String(rule))),
  in: (rule) => among("a string of the list", listed(rule)),
  not_in: (rule) => not(among("a string not of the list", listed(rule))),
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

const BYTES: Readonly<Record<string, Make>> = {
  const: (rule) => binary("the bytes that are allowed", (value) => value.equals(buffer(rule))),
  len: (rule) => sized(`${rule} bytes`, length, rule, rule),
  min_len: (rule) => sized(`at least ${rule} bytes`, length, rule),
  max_len: (rule) => sized(`at most ${rule} bytes`, length, 0, rule),
  prefix: (rule) => binary("bytes with a given start", (v) => latin1(v).startsWith(latin1(rule))),
  suffix: (rule) => binary("bytes with a given end", (v) => latin1(v).endsWith(latin1(rule))),
  contains: (rule) => binary("bytes with a given part", (value) => value.includes(buffer(rule))),
  in: (rule) => binary("bytes of the list", (v) => listed(rule).some((r) => v.equals(buffer(r)))),
  not_in: (rule) =>
    binary("bytes not of the list", (v) => !listed(rule).some((r) => v.equals(buffer(r)))),
};

const typeUrl = (value: unknown): string => (value as { readonly typeUrl: string }).typeUrl;

const ANY: Readonly<Record<string, Make>> = {
  required: anything,
  in: (rule) => ({
    want: "a message type of the list",
    holds: (value) => listed(rule).includes(typeUrl(value)),
  }),
  not_in: (rule) => ({
    want: "a message type not of the list",
    holds: (value) => !listed(rule).includes(typeUrl(value)),
  }),
};

// --- building blocks ---

function each(rules: Rules, kind: string, table: Readonly<Record<string, Make>>): Check[] {
  return [...rules].map(([name, rule]) => {
    const make = table[name];
    if (make === undefined) throw new Error(`validation rule ${kind}.${name} is not supported`);
    return make(rule);
  });
}

function without(rules: Rules, ...names: readonly string[]): Rules {
  return new Map([...rules].filter(([name]) => !names.includes(name)));
}

function anything(): Check {
  return { want: "anything", holds: () => true };
}

function not(check: Check): Check {
  return { want: check.want, holds: (value) => !check.holds(value) };
}

function same(want: string, rule: unknown): Check {
  return { want, holds: (value) => value === rule };
}

function among(want: string, rules: readonly unknown[], order?: Order): Check {
  const allowed = new Set(order === undefined ? rules : rules.map(order));
  return { want, holds: (value) => allowed.has(order === undefined ? value : order(value)) };
}

function sized(
  want: string,
  size: (value: unknown) => number,
  least: unknown,
  most: unknown = Number.POSITIVE_INFINITY,
): Check {
  const [low, high] = [Number(least), Number(most)];
  return { want, holds: (value) => size(value) >= low && size(value) <= high };
}

function text(want: string, holds: (value: string) => boolean): Check {
  return { want, holds: (value) => holds(String(value)) };
}

function binary(want: string, holds: (value: Buffer) => boolean): Check {
  return { want, holds: (value) => holds(buffer(value)) };
}

function listed(rule: unknown): readonly unknown[] {
  return Array.isArray(rule) ? rule : [];
}
