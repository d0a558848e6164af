// The versions of policies that agents apply. Each agent writes them to the store, under its lease; controllers compare them
// with the versions that they run.

import { createHash } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { cutText } from "#base/text/cut.ts";
import { printable } from "#base/text/printable.ts";
import type { Store, StoreUpdate } from "#store/store.ts";
import { APPLIED, appliedKey, groupPrefix } from "#sync/keys.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { followStore } from "./follow-store.ts";
import type { Member } from "./members.ts";

const MESSAGE = "sluice.fleet.v1.Applied";

/** A version of a policy. */
interface PolicyVersionName {
  readonly policyName: string;
  readonly policyHash: string;
}

/** The number that stands for a version. */
export function versionNumber({ policyName, policyHash }: PolicyVersionName): bigint {
  return createHash("sha256").update(`${policyName}\0${policyHash}`).digest().readBigUInt64BE();
}

/** Reasons for which rules of policies were refused, one of each policy, by its name. */
export type Refusals = ReadonlyMap<string, string>;

/** Limits of the policies whose refusal is published, and of a reason in bytes. */
const MAX_REFUSALS = 20;
const MAX_REASON = 300;

function writeApplied(
  versions: Iterable<PolicyVersionName>,
  refusals: Refusals = new Map(),
): Uint8Array {
  const policies = [...versions].map(versionNumber).sort((a, b) => (a < b ? -1 : 1));
  const first = [...refusals].slice(0, MAX_REFUSALS);
  const refused = first.map(([policy, reason]) => ({
    policy,
    reason: cutText(reason, MAX_REASON),
  }));
  return encode(MESSAGE, { policies, refused });
}

/**
 * The versions that are wholly in force: of the policies of these rules, those whose rules all have one hash. Rules
 * without a hash, such as flux meters, say nothing.
 */
function versionsIn(
  rules: Iterable<{ readonly policyName: string; readonly policyHash?: string }>,
  refused: Pick<ReadonlySet<string>, "has">,
): readonly PolicyVersionName[] {
  const hashes = new Map<string, string | undefined>();
  for (const { policyName, policyHash } of rules) {
    if (policyHash === undefined) continue;
    const known = hashes.has(policyName) ? hashes.get(policyName) : policyHash;
    hashes.set(policyName, known === policyHash ? policyHash : undefined);
  }
  return [...hashes].flatMap(([policyName, policyHash]) =>
    policyHash === undefined || refused.has(policyName) ? [] : [{ policyName, policyHash }],
  );
}

/** The part of a rule's key that follows the group. */
const RULE_OF_POLICY = /^policy-(.+)-(?:component_id|classifier_index)-[^-]*$/s;

/**
 * The policy in the key of a rule of the group, such as `sampler/agent_group-g-policy-p-component_id-root.0`; undefined for
 * a rule whose key names none, such as that of a flux meter.
 */
function policyIn(key: string, group: string): string | undefined {
  const name = key.slice(key.indexOf("/") + 1);
  const prefix = groupPrefix(group);
  if (!name.startsWith(prefix)) return undefined;
  return RULE_OF_POLICY.exec(name.slice(prefix.length))?.[1];
}

/** Milliseconds between two writes. Otherwise a start with many policies would write once for each of them. */
const EVERY_MS = 500;

/** The versions that this agent applies, written to the store when they change. */
export class AppliedPolicies {
  readonly #group: string;
  readonly #clock: Clock;
  readonly #write: (value: Uint8Array) => void;
  #written = "";
  #next: (() => Uint8Array) | undefined;
  #disarm: (() => void) | undefined;

  /** `group`: of this agent. */
  constructor(group: string, clock: Clock, write: (value: Uint8Array) => void) {
    this.#group = group;
    this.#clock = clock;
    this.#write = write;
  }

  /** The rules in force, and the faults of those that were refused, by key. */
  changed(
    rules: ReadonlyMap<string, { readonly policyName: string; readonly policyHash?: string }>,
    refused: ReadonlyMap<string, Pick<Fault, "message">>,
  ): void {
    const refusals = new Map(
      [...refused].flatMap(([key, { message }]) => {
        const policy = policyIn(key, this.#group);
        return policy === undefined ? [] : [[policy, message] as const];
      }),
    );
    this.#next = () => writeApplied(versionsIn(rules.values(), refusals), refusals);
    this.#disarm ??= this.#clock.alarm(EVERY_MS, () => {
      this.#disarm = undefined;
      this.#flush();
    });
  }

  readonly close = async (): Promise<void> => {
    this.#disarm?.();
  };

  #flush(): void {
    const value = this.#next?.();
    if (value === undefined) return;
    const text = Buffer.from(value).toString("base64");
    if (text === this.#written) return;
    this.#written = text;
    this.#write(value);
  }
}

/** Far more than the policies of any controller. */
const MAX_VERSIONS = 100_000;
const MAX_AGENTS = 10_000;

interface FollowAppliedOptions {
  readonly store: Pick<Store, "watch">;
  readonly clock: Clock;
  readonly log: Log;
}

/** Report of one agent. */
interface AgentApplied {
  /** Numbers of the versions that are wholly in force. */
  readonly versions: ReadonlySet<bigint>;
  readonly refusals: Refusals;
}

/** Reports of all agents, kept up to date until `close`. */
export class FollowedApplied {
  readonly #log: Log;
  readonly #known = new Map<string, AgentApplied>();
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(options: FollowAppliedOptions) {
    this.#log = options.log;
    this.#ended = followStore({
      ...options,
      prefixes: [APPLIED],
      what: "what agents apply",
      apply: (batch) => this.#apply(batch),
      signal: this.#stop.signal,
    });
  }

  /** Undefined while the agent has said nothing. */
  of({ group, id }: Member): AgentApplied | undefined {
    return this.#known.get(appliedKey(group, id));
  }

  /** Logs when an agent begins to refuse rules, when it refuses others, and when it refuses none any more. */
  #report(key: string, now: Refusals, before: Refusals = new Map()): void {
    const agent = `agent ${key.slice(APPLIED.length)}`;
    const text = refusalText(now);
    if (now.size > 0 && text !== refusalText(before)) this.#log.warn({}, `${agent} ${text}`);
    if (now.size === 0 && before.size > 0) this.#log.info({}, `${agent} refuses no rules any more`);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  #apply({ puts, deletes }: StoreUpdate): void {
    for (const key of deletes) this.#known.delete(key);
    for (const { key, value } of puts) {
      try {
        const before = this.#known.get(key);
        if (this.#known.size >= MAX_AGENTS && before === undefined) continue;
        const now = read(value);
        this.#known.set(key, now);
        this.#report(key, now.refusals, before?.refusals);
      } catch (thrown) {
        this.#known.delete(key);
        this.#log.warn({}, `${key} is left out: ${Fault.from(thrown).message}`);
      }
    }
  }
}

/** The first of them, with the number of the others. */
function refusalText(refusals: Refusals): string {
  const [[policy, reason] = ["", ""]] = refusals;
  const others = refusals.size > 1 ? `, and ${refusals.size - 1} other policies` : "";
  return `refuses rules of policy ${policy} (${reason})${others}`;
}

/** Bytes of one number. */
const NUMBER = 8;

function read(value: Uint8Array): AgentApplied {
  if (value.length > MAX_VERSIONS * NUMBER) {
    const wanted = `wanted at most ${MAX_VERSIONS} versions`;
    throw new Fault("RESOURCE_EXHAUSTED", `${wanted}, got ${value.length} bytes`);
  }
  const { policies, refused } = decode(MESSAGE, value);
  const published = refused.slice(0, MAX_REFUSALS);
  return {
    versions: new Set(policies),
    refusals: new Map(
      published.map(({ policy, reason }) => [policy, cutText(printable(reason), MAX_REASON)]),
    ),
  };
}
