// Encodes buckets and slots in their present state, for hand-overs and copies.

import { decode, encode } from "#wire/protobuf/messages.ts";
import { type CountedKey, finite, invalid, keysOf, type NamedLimiter, readKeys } from "./keys.ts";

/** With their numbers in messages. */
const PURPOSES = { "hand over": 0, copy: 1, leave: 2 } as const;

/** The purpose of a message with buckets and slots. */
export type Purpose = keyof typeof PURPOSES;

/** The state of one bucket. */
export interface BucketTransfer<Limiter extends NamedLimiter = NamedLimiter>
  extends CountedKey<Limiter> {
  readonly kind: "bucket";
  /** Tokens; negative when they are owed. */
  readonly available: number;
  /** Milliseconds from now to the time up to which it is filled. */
  readonly filledMs: number;
}

/** One slot of a concurrency limiter. */
export interface SlotTransfer<Limiter extends NamedLimiter = NamedLimiter>
  extends CountedKey<Limiter> {
  readonly kind: "slot";
  readonly id: string;
  readonly tokens: number;
  /** Milliseconds from now to its start: negative. */
  readonly startMs: number;
}

export type Transfer = BucketTransfer | SlotTransfer;

export interface StoreMessage {
  readonly from: string;
  readonly number: number;
  readonly purpose: Purpose;
  readonly last: boolean;
  readonly moved: readonly Transfer[];
}

export function writeStore({ from, number, purpose, last, moved }: StoreMessage): Uint8Array {
  return encode("sluice.fleet.v1.StoreRequest", {
    from,
    number,
    last,
    purpose: PURPOSES[purpose],
    ...keysOf(moved),
    available: moved.map((each) => (each.kind === "slot" ? each.tokens : each.available)),
    filledMs: moved.map((each) => (each.kind === "slot" ? each.startMs : each.filledMs)),
    // Empty where all are buckets.
    id: moved.some(({ kind }) => kind === "slot")
      ? moved.map((each) => (each.kind === "slot" ? each.id : ""))
      : [],
  });
}

/** @throws Fault INVALID_ARGUMENT */
export function readStore(bytes: Uint8Array): StoreMessage {
  const { from, number, purpose, last, available, filledMs, id, ...keys } = decode(
    "sluice.fleet.v1.StoreRequest",
    bytes,
  );
  finite(available);
  finite(filledMs);
  const known = purposeOf(purpose);
  const moved = readKeys(keys, [available, filledMs]).map((key, at): Transfer => {
    const [tokens, ms] = [available[at] ?? 0, filledMs[at] ?? 0];
    return key.limiter.slots === undefined
      ? { kind: "bucket", ...key, available: tokens, filledMs: ms }
      : { kind: "slot", ...key, id: id[at] ?? "", tokens, startMs: ms };
  });
  return { from, number, purpose: known, last, moved };
}

function purposeOf(number: number): Purpose {
  for (const [name, known] of Object.entries(PURPOSES))
    if (known === number) return name as Purpose;
  throw invalid(`a known purpose, got ${number}`);
}
