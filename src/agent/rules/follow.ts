// Keeps the rulebook equal to the store. Every batch is decoded in slices and then comes into force at once, so that no check
// sees half of it. A rule that cannot be read or compiled is reported and changes nothing.

import { isDeepStrictEqual } from "node:util";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Log, LogLine } from "#base/log.ts";
import { figuresOf } from "#base/text/figures.ts";
import { counted } from "#base/text/listed.ts";
import type { Rulebook, RuleChanges } from "#flow/rulebook.ts";
import type { Rule } from "#flow/rules.ts";
import { Slices } from "#runtime/life/slices.ts";
import type { Store, StoreUpdate } from "#store/store.ts";
import { agentPrefixes, type DecodedUpdate, readBatch } from "#sync/follow/batch.ts";
import { keepRules } from "#sync/follow/rule-keeper.ts";
import { ruleKey } from "#sync/keys.ts";
import type { RuleSnapshot } from "./rule-snapshot.ts";

export interface Following {
  /** Resolves when the first batch is in force. Before that the rules are unknown, and no flow may be judged. */
  readonly ready: Promise<void>;
  /** Resolves when the watch has ended. */
  readonly ended: Promise<void>;
}

/** A rule, or numbers, that cannot be read or compiled. */
export interface RejectedRule {
  readonly message: string;
  /** True if its predecessor stays in force. Otherwise flows are judged as if there were no such rule. */
  readonly hasPredecessor: boolean;
}

/** Rules that do not work as written, by key. An entry stays until its key is written again or deleted. */
export interface RuleFaults {
  readonly rejected: ReadonlyMap<string, RejectedRule>;
  /** Rules that are in force except for a part that this version does not run. */
  readonly partial: ReadonlyMap<string, string>;
  /** The keys of entries that came with this batch. */
  readonly added: ReadonlySet<string>;
}

interface FollowOptions {
  readonly store: Store;
  readonly group: string;
  readonly book: Rulebook;
  readonly clock: Pick<Clock, "now" | "alarm">;
  readonly log: Pick<Log, "debug" | "trace">;
  /** Called with the number of keys that stay in force although the store lost them. */
  readonly kept: (keys: number) => void;
  /** Called synchronously when a batch has come into force. */
  readonly applied: (revision: number, faults: RuleFaults) => void;
  /** The rules to begin with while the store is away; undefined waits for the store. */
  readonly snapshot?: Pick<RuleSnapshot, "prepend" | "record"> | undefined;
  readonly signal: AbortSignal;
}

export function follow(options: FollowOptions): Following {
  const first = Promise.withResolvers<void>();
  const ended = followAll(options, first.resolve);
  // A watch that ends before its first batch must settle `ready` too.
  ended.then(
    () => first.resolve(),
    (thrown: unknown) => first.reject(thrown),
  );
  return { ready: first.promise, ended };
}

async function followAll(options: FollowOptions, ready: () => void): Promise<void> {
  const { store, group, book, clock, log, kept, applied, snapshot, signal } = options;
  const rejected = new Map<string, RejectedRule>();
  const partial = new Map<string, string>();
  const watched = store.watch(agentPrefixes(group), signal);
  const batches = snapshot?.prepend(watched) ?? watched;
  for await (const batch of keepRules(batches, { group, clock, kept })) {
    const changed = [...batch.deletes, ...batch.puts.map((entry) => entry.key)];
    for (const key of changed.map(reportedKey)) {
      rejected.delete(key);
      partial.delete(key);
    }
    const { rules, numbers, faults, notRun } = await readInSlices(group, batch, clock);
    if (log.debug !== undefined) logChanges(log.debug, log.trace, batch, book, { rules, numbers });
    const refused = await new Slices(clock).take(book.applyInSteps({ rules, numbers }));
    const added = new Set<string>();
    const add = <T>(map: Map<string, T>, key: string, value: T): void => {
      map.set(key, value);
      added.add(key);
    };
    const reject = (key: string, { message }: Fault): void => {
      add(rejected, key, { message, hasPredecessor: isInForce(book, key) });
    };
    for (const [key, fault] of faults) reject(reportedKey(key), fault);
    for (const [key, part] of notRun) add(partial, reportedKey(key), part);
    for (const { key, fault } of refused) reject(key, fault);
    applied(batch.revision, { rejected, partial, added });
    log.debug?.(
      { revision: batch.revision, rules: book.rules.size, refused: rejected.size },
      "the changes are in force",
    );
    snapshot?.record(batch);
    ready();
  }
}

/** Entries that are decoded without a pause. */
const SLICE = 8;

async function readInSlices(
  group: string,
  batch: StoreUpdate,
  clock: Pick<Clock, "now">,
): Promise<DecodedUpdate> {
  const { puts } = batch;
  if (puts.length <= SLICE) return readBatch(group, batch);
  const slices = new Slices(clock);
  const parts = [readBatch(group, { ...batch, puts: [] })];
  for (let at = 0; at < puts.length; at += SLICE) {
    parts.push(readBatch(group, { ...batch, deletes: [], puts: puts.slice(at, at + SLICE) }));
    await slices.pause();
  }
  return {
    rules: new Map(parts.flatMap(({ rules }) => [...rules])),
    numbers: new Map(parts.flatMap(({ numbers }) => [...numbers])),
    notRun: new Map(parts.flatMap(({ notRun }) => [...notRun])),
    faults: new Map(parts.flatMap(({ faults }) => [...faults])),
  };
}

const NUMBERS = "/decisions/";

/** The key that reports name. Unreadable numbers (`/decisions/…`) say nothing about the rule that they belong to. */
function reportedKey(key: string): string {
  return key.startsWith(NUMBERS) ? key : ruleKey(key);
}

/** Rules that one line of the log names. */
const MAX_NAMED = 50;

/** True if the book has something under this key: numbers for a key in `/decisions/`, a rule for any other. */
function isInForce(book: Rulebook, key: string): boolean {
  if (!key.startsWith(NUMBERS)) return book.rules.has(key);
  return book.numbersOf(ruleKey(key)) !== undefined;
}

/**
 * Logs one line for each version of a policy whose rules arrive or go, and one for each component whose numbers change.
 * Numbers whose validity is only extended are logged at trace. `revision` is that of the write, which the controller logs as
 * well.
 */
function logChanges(
  debug: LogLine,
  trace: LogLine | undefined,
  batch: StoreUpdate,
  book: Rulebook,
  { rules, numbers }: RuleChanges,
): void {
  const writes = new Map(batch.puts.map(({ key, revision }) => [key, revision]));
  const revisionOf = (key: string) => writes.get(key) ?? batch.revision;
  const changes = [...rules].flatMap(([key, after]) => {
    const before = book.rules.get(key);
    const rule = after ?? before;
    if (rule === undefined) return [];
    const how = after === undefined ? "removed" : before === undefined ? "added" : "changed";
    return [{ ...partOf(rule), revision: revisionOf(`/config/${key}`), how } as const];
  });
  const write = ({ policy, hash, revision }: (typeof changes)[number]) =>
    `${policy} ${hash} ${revision}`;
  for (const some of Map.groupBy(changes, write).values()) {
    const named = [...Map.groupBy(some, ({ how }) => how)].map(
      ([how, each]) => [how, each.slice(0, MAX_NAMED).map(({ part }) => part)] as const,
    );
    const [{ policy, hash, revision } = {}] = some;
    const fields = { policy, hash, revision, ...Object.fromEntries(named) };
    debug({ ...fields, rules: some.length }, "rules arrived");
  }
  for (const [key, after] of numbers) {
    const before = book.numbersOf(key);
    const of = after ?? before;
    if (of === undefined) continue;
    const { policyName: policy, policyHash: hash, componentId: component_id, kind } = of;
    const fields = { policy, hash, component_id, kind, revision: revisionOf(NUMBERS + key) };
    const [then, now] = [figuresOf(before), figuresOf(after)];
    const shown = { before: then && counted(then), after: now && counted(now) };
    if (isDeepStrictEqual(then, now))
      trace?.({ ...fields, numbers: shown.after }, "numbers renewed");
    else debug({ ...fields, ...shown }, "numbers arrived");
  }
}

/** The policy of a rule, and the name of the rule in it. */
function partOf(rule: Rule) {
  const { policyName: policy } = rule;
  if (rule.kind === "flux_meter") return { policy, hash: undefined, part: rule.name };
  const part = rule.kind === "classifier" ? `classifier ${rule.index}` : rule.componentId;
  return { policy, hash: rule.policyHash, part };
}
