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

/** A key beside another one, on the same server, to probe with. */
export function probeKey(namespace: string, key: string): string {
  const tag = key.indexOf("{");
  return `${namespace}:probe:${tag < 0 ? "{}" : key.slice(tag)}`;
}

/** Escapes braces: callers could otherwise choose the server that counts them. */
function escaped(value: string): string {
  return /[{}%]/.test(value) ? value.replaceAll(/[{}%]/g, encodeURIComponent) : value;
}
