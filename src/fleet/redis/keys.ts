// Names of keys in Redis: `<namespace>:{<group>/<policy>/<limiter>/<label value>}`. The braces are the hash tag of Redis
// Cluster: all that belongs to one count lies on one server.

import { createHash } from "node:crypto";
import type { CounterName } from "#flow/counters/shared-counters.ts";

/** Hexadecimal digits that tell the limiters of one policy apart. */
const DIGITS = 16;

/** The keys of one limiter. */
export class KeySpace {
  readonly #prefix: string;

  constructor(namespace: string, group: string, { policyName, name }: CounterName) {
    const limiter = createHash("sha256").update(name).digest("hex").slice(0, DIGITS);
    const parts = [group, policyName].map(encodeURIComponent);
    this.#prefix = `${namespace}:{${parts.join("/")}/${limiter}`;
  }

  /** `undefined` stands for the only count of a limiter without a key. */
  of(value: string | undefined): string {
    return value === undefined ? `${this.#prefix}}` : `${this.#prefix}/${escaped(value)}}`;
  }
}

/** The part of a key that names its limiter, without the label value, which may be private. */
export function limiterOf(key: string): string {
  const tag = key.indexOf("{");
  const [group = "", policy = "", limiter = ""] = key.slice(tag + 1).split("/");
  return `${key.slice(0, tag + 1)}${group}/${policy}/${limiter}`;
}

/** A key beside another one, on the same server, to probe with. */
export function probeKey(namespace: string, key: string): string {
  const tag = key.indexOf("{");
  return `${namespace}:probe:${tag < 0 ? "{}" : key.slice(tag)}`;
}

/** Escapes braces: callers could otherwise choose the server that counts them. */
function escaped(value: string): string {
  return /[{}%]/.test(value) ? value.replaceAll(/[{}%]/g, encodeURIComponent) : value;
}

/** The reply of a script about a key that holds no counter, because another program wrote it. Other keys are counted. */
export const FOREIGN = "foreign";

/**
 * Lua: `readable(reply)` is false for the reply of `redis.pcall` about a key of another type, and raises any other error,
 * which then is that of the whole call.
 */
export const READABLE = `
local function readable(reply)
  if type(reply) ~= 'table' or not reply.err then return true end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return false end
  error(reply.err)
end
`;
