// Keys and ranges of keys as etcd sees them: bytes, below the namespace.

import type { Entry } from "../store.ts";
import type { KeyValue } from "./client.ts";

/** The keys of one store: `namespace` stands before each. */
export class Keys {
  readonly #namespace: string;

  constructor(namespace: string) {
    this.#namespace = namespace;
  }

  bytes(key: string): Uint8Array {
    return Buffer.from(this.#namespace + key, "utf8");
  }

  text(bytes: Uint8Array): string {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      .toString("utf8")
      .slice(this.#namespace.length);
  }

  /** An entry as etcd tells of it. */
  entry({ key, value, ...kv }: KeyValue): Entry {
    return {
      key: this.text(key),
      value,
      revision: Number(kv.modRevision),
      created: Number(kv.createRevision),
      leased: kv.lease !== 0n,
    };
  }

  /** All keys that start with this prefix. */
  range(prefix: string): { readonly key: Uint8Array; readonly rangeEnd: Uint8Array } {
    const start = this.bytes(prefix);
    // An empty key stands for the first, and as an end for no end.
    return start.length === 0
      ? { key: Uint8Array.of(0), rangeEnd: Uint8Array.of(0) }
      : { key: start, rangeEnd: after(start) };
  }
}

/** The first key behind all those that start with these bytes. */
function after(prefix: Uint8Array): Uint8Array {
  for (let at = prefix.length - 1; at >= 0; at--) {
    const byte = prefix[at] ?? 0xff;
    if (byte === 0xff) continue;
    const end = Uint8Array.from(prefix.subarray(0, at + 1));
    end[at] = byte + 1;
    return end;
  }
  return Uint8Array.of(0);
}
