// Reads all keys under a prefix, in pages that show one and the same state.

import { Fault } from "#base/fault.ts";
import type { Entry } from "../store.ts";
import type { EtcdClient } from "./client.ts";
import { isTooLarge } from "./faults.ts";
import type { Keys } from "./keys.ts";

/** Entries of a page. A page that is too large to be read is asked for again with a quarter of the entries. */
const PAGE = 512;

export interface State {
  readonly revision: number;
  readonly clusterId: bigint;
}

/**
 * Calls `found` for each entry and resolves with the state that was read: the present one, or that of `revision`.
 * Values are left out where only keys and revisions are wanted.
 */
export async function list(
  client: EtcdClient,
  keys: Keys,
  prefix: string,
  found: (entry: Entry) => void,
  { revision = 0, timeoutMs }: { readonly revision?: number; readonly timeoutMs?: number } = {},
): Promise<State> {
  const { key: start, rangeEnd } = keys.range(prefix);
  let key = start;
  let limit = PAGE;
  let at = revision;
  for (;;) {
    const request = { key, rangeEnd, limit, revision: at };
    let page: Awaited<ReturnType<typeof client.call<"range">>>;
    try {
      page = await client.call("range", request, { repeatable: true, timeoutMs });
    } catch (thrown) {
      if (!isTooLarge(Fault.from(thrown)) || limit === 1) throw thrown;
      limit = Math.ceil(limit / 4);
      continue;
    }
    const { header, kvs, more } = page;
    if (at === 0) at = Number(header?.revision ?? 0);
    for (const kv of kvs) found(keys.entry(kv));
    const last = kvs.at(-1);
    if (!more || last === undefined) {
      return { revision: at, clusterId: header?.clusterId ?? 0n };
    }
    // The first key behind the last one of this page.
    key = Buffer.concat([last.key, Buffer.of(0)]);
  }
}
