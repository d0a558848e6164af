// Keys in Redis, `<namespace>:{<group>/<policy>/<limiter>/<label value>}`: their names, the bound on created keys, and the
// common part of both scripts. The braces are the hash tag of Redis Cluster, which keeps one count on one server.

import { createHash } from "node:crypto";
import type { Chance } from "#base/chance.ts";
import { ExpiringKeys } from "#flow/counters/expiring-keys.ts";
import type { CounterName } from "#flow/counters/shared-counters.ts";

/** Hexadecimal digits of the hash that identifies a limiter within its policy. */
const DIGITS = 16;
/** Longer label values are replaced by their hash, because clients choose them and could fill the server's memory. */
const MAX_VALUE_BYTES = 64;

/** The keys of one limiter: their names, and how many of them this agent may create. */
export class KeySpace {
  readonly #prefix: string;
  /** Keys that this agent may have created and that have not expired. */
  readonly #created: ExpiringKeys;

  /** An agent creates at most `maxKeys` keys that exist at one time. */
  constructor(
    namespace: string,
    group: string,
    { policyName, name }: CounterName,
    { maxKeys, chance }: { readonly maxKeys: number; readonly chance: Chance },
  ) {
    const limiter = createHash("sha256").update(name).digest("hex").slice(0, DIGITS);
    const parts = [group, policyName].map(encodeURIComponent);
    this.#prefix = `${namespace}:{${parts.join("/")}/${limiter}`;
    this.#created = new ExpiringKeys(maxKeys, chance);
  }

  /** `undefined`: the only count of a limiter without a key. */
  of(value: string | undefined): string {
    if (value === undefined) return `${this.#prefix}}`;
    return `${this.#prefix}/${isLong(value) ? hashed(value) : escaped(value)}}`;
  }

  /**
   * True if a request about this value may create its key. If so, the key counts as existing for `lifeMs`, its longest
   * lifetime.
   */
  mayCreate(value: string | undefined, now: number, lifeMs: number): boolean {
    return value === undefined || this.#created.add(value, now, now + lifeMs);
  }
}

function isLong(value: string): boolean {
  // No code unit takes more than three bytes.
  return value.length * 3 > MAX_VALUE_BYTES && Buffer.byteLength(value) > MAX_VALUE_BYTES;
}

/** No escaped value begins with these characters. */
function hashed(value: string): string {
  return `%#${createHash("sha256").update(value).digest("base64url")}`;
}

/** The part of a key before the label value, which may be private. */
export function limiterOf(key: string): string {
  const tag = key.indexOf("{");
  const [group = "", policy = "", limiter = ""] = key.slice(tag + 1).split("/");
  return `${key.slice(0, tag + 1)}${group}/${policy}/${limiter}`;
}

/** A key for probes, in the same hash slot as `key`. */
export function probeKey(namespace: string, key: string): string {
  const tag = key.indexOf("{");
  return `${namespace}:probe:${tag < 0 ? "{}" : key.slice(tag)}`;
}

/** Escapes braces, by which callers could otherwise choose the server that counts them. */
function escaped(value: string): string {
  return /[{}%]/.test(value) ? value.replaceAll(/[{}%]/g, encodeURIComponent) : value;
}

/** A script that the server runs on several keys, on each as one step. It replies with one text for each key. */
export interface Script {
  readonly text: string;
  /** SHA-1 of the text, in hexadecimal digits. */
  readonly sha: string;
  /** Returns true if a text has the form of this script's replies. */
  readonly isReply: (text: string) => boolean;
}

/** One request to a script about one key. */
export interface ScriptRequest {
  readonly script: Script;
  readonly key: string;
  readonly args: string;
}

/** The reply of a script about a key that holds no counter, because another program wrote it. Other keys are counted. */
export const FOREIGN = "foreign";
/** The reply of a script about a key that does not exist and was not created. */
export const NO_ROOM = "no room";

/**
 * Lua: the beginning of both scripts.
 *
 * - `readable(reply)` is false for the reply of `redis.pcall` about a key of another type, and raises any other error, which
 *   then is that of the whole call.
 * - `finite(number)` is false for infinities and for what is not a number.
 * - `exhausted`: the server has no memory for further keys. It refuses every command that could need memory until a script has
 *   written something that needs none, so this is found out first, with a command that changes nothing. Keys that exist can
 *   be written all the same.
 */
export const PRELUDE = `
local function readable(reply)
  if type(reply) ~= 'table' or not reply.err then return true end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return false end
  error(reply.err)
end
local function finite(number)
  return number and number > -math.huge and number < math.huge
end
local exhausted = false
local tried = redis.pcall('ZADD', KEYS[1], 'XX', 0, '')
if type(tried) == 'table' and tried.err and string.find(tried.err, 'OOM', 1, true) then
  exhausted = true
else
  readable(tried)
end
`;

/** Returns true if a part of a reply is a finite number. */
export function isNumber(text: string): boolean {
  return text !== "" && Number.isFinite(Number(text));
}
