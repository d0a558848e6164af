// A source of policies: those that an earlier leader left in the store and that no other source has. A new leader cannot tell
// whether they were removed or whether it reads the wrong directory. If there are many, they keep running until a source has
// them again or a person removes them. Later, policies that vanish from their sources are removed.

import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { listed } from "#base/text/listed.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { findingLine } from "#policy/format.ts";
import type { CompiledSet, PolicyText } from "#policy/set.ts";
import type { Entry } from "#store/store.ts";
import { runningDocument } from "#sync/follow/document.ts";
import { DYNAMIC_CONFIGS, POLICIES } from "#sync/keys.ts";
import type { MetricSink, MetricSource } from "#telemetry/metrics/table.ts";
import type { PolicyCandidate, PolicySource } from "../policy-source.ts";
import type { ActivePolicies } from "./active-policies.ts";

interface KeptSourceOptions {
  /** Read only if policies are in force at the start. */
  readonly settings: {
    /** The largest share of the policies in the store that is removed because no source has them. */
    readonly removal_guard: number;
  };
  readonly active: ActivePolicies;
  /** True if the store has an API document for a policy, even an invalid one. */
  readonly hasDocument: (name: string) => boolean;
  /** True if the resources of the policy's namespace cannot be read. Such a policy is kept, whatever the guard is. */
  readonly isUnread: (name: string) => boolean;
  /** Returns one set for each text. */
  readonly compile: (texts: readonly PolicyText[]) => Promise<readonly CompiledSet[]>;
  readonly log: Log;
  /** Called only when there is something to report. */
  readonly status: () => { ok(message: string): void; fail(message: string): void };
}

export class KeptSource implements PolicySource, MetricSource {
  readonly origin = "kept";
  readonly #options: KeptSourceOptions;
  /** Until the start: policies and dynamic configurations in the store, by key. */
  #stored = new Map<string, Uint8Array>();
  readonly #kept = new Map<string, CompiledPolicy>();
  /** Those of `#kept` that stay only until their resources can be read. */
  readonly #unread = new Set<string>();
  /** True if policies are kept and have all been in force. */
  #isKeeping = false;

  constructor(options: KeptSourceOptions) {
    this.#options = options;
  }

  /** Takes the entries of the store at the beginning of the leadership. */
  adopt(entries: readonly Entry[]): void {
    for (const { key, value } of entries) {
      if (key.startsWith(POLICIES) || key.startsWith(DYNAMIC_CONFIGS)) this.#stored.set(key, value);
    }
  }

  /**
   * Keeps the policies that no other source has, if they are too many to be removed. The other sources must have started.
   * @throws Fault FAILED_PRECONDITION if a policy to be kept cannot be read, because leading without it would remove it
   */
  async start(): Promise<void> {
    const { settings, active, hasDocument, isUnread, compile, log } = this.#options;
    const stored = this.#stored;
    this.#stored = new Map();
    const keys = [...stored.keys()].filter((key) => key.startsWith(POLICIES));
    if (keys.length === 0) return;
    const { removal_guard: guard } = settings;
    const isTooMuch = (policies: number) => policies > guard * keys.length;
    const lacking = keys.filter((key) => !active.owners.has(nameIn(key)));
    if (!isTooMuch(lacking.length) && !lacking.some((key) => isUnread(nameIn(key)))) return;
    const texts: PolicyText[] = [];
    for (const key of lacking) {
      const name = nameIn(key);
      const { source, text } = await readStored(key, stored.get(key));
      // Earlier leaders kept this policy because it had no source.
      if (source !== "ETCD" && isUnread(name)) this.#unread.add(name);
      // The store itself is the source of API policies. A policy without its document there was removed.
      if (source !== "ETCD" || hasDocument(name))
        texts.push({ source: key, defaultName: name, text });
    }
    const isGuarded = isTooMuch(texts.length);
    const kept = texts.filter(({ defaultName }) => isGuarded || this.#unread.has(defaultName));
    if (kept.length === 0) return;
    for (const { findings, policies } of await compile(kept)) {
      const policy = policies[0];
      if (findings.length > 0 || policy === undefined) throw unreadable(findings.map(findingLine));
      const key = DYNAMIC_CONFIGS + policy.name;
      const dynamicConfig = configIn(key, stored.get(key));
      this.#kept.set(policy.name, { ...policy, dynamicConfig });
    }
    await active.update();
    this.#isKeeping = true;
    this.inForceChanged();
    if (this.#kept.size === 0) return;
    if (!isGuarded) {
      const why = "the resources of their namespaces cannot be read";
      log.error({}, `policies stay in force because ${why}: ${this.#names}`);
      return;
    }
    const share = `${texts.length} of ${keys.length} policies in force are in no source of this controller`;
    const why = `more than policies.removal_guard (${guard}) lets it remove when it becomes the leader`;
    log.error({}, `${share}, ${why}; they stay in force: ${this.#names}; ${REMEDY}`);
  }

  *candidates(): Generator<PolicyCandidate> {
    for (const [name, policy] of this.#kept)
      if (!this.#isReadAgain(name)) yield { name, location: POLICIES + name, policy };
  }

  /** The former dynamic configuration is part of the policy, so that the API can replace it. */
  dynamicConfig(): undefined {
    return undefined;
  }

  faultsOf(): string {
    return `no source of this controller has it, and policies.removal_guard keeps it in force; ${REMEDY}`;
  }

  /** Drops policies that another source has, or that another policy has replaced. */
  inForceChanged(): void {
    if (!this.#isKeeping) return;
    const { log, status, active } = this.#options;
    for (const { candidate, why } of active.leftOutOf(this.origin)) {
      this.#kept.delete(candidate.name);
      log.info({ policy: candidate.name }, `no longer kept: ${why}`);
    }
    for (const name of [...this.#unread].filter((each) => this.#isReadAgain(each))) {
      this.#kept.delete(name);
      this.#unread.delete(name);
      log.info(
        { policy: name },
        "no longer kept: the resources of its namespace can be read again",
      );
    }
    this.#isKeeping = this.#kept.size > 0;
    if (this.#isKeeping) {
      status().fail(
        `policies in force that no source of this controller has: ${this.#names}; ${REMEDY}`,
      );
      return;
    }
    const over = "every policy in force has a source again";
    log.info({}, over);
    status().ok(over);
  }

  /** Drops a policy; it runs until the next update. Returns whether it was kept. */
  release(name: string): boolean {
    return this.#kept.delete(name);
  }

  collect(to: MetricSink): void {
    to.number("sluice_policies", ["kept"], this.#kept.size);
  }

  /** True if the resources of the policy could not be read at the start and can be read now. */
  #isReadAgain(name: string): boolean {
    return this.#unread.has(name) && !this.#options.isUnread(name);
  }

  get #names(): string {
    return listed([...this.#kept.keys()], (name) => name);
  }
}

const REMEDY =
  "make their documents available to this controller again, or remove them (`sluice policy delete NAME`, or policies.removal_guard: 1 and a restart)";

function nameIn(key: string): string {
  return key.slice(POLICIES.length);
}

/** @throws Fault FAILED_PRECONDITION */
async function readStored(key: string, wrapper: Uint8Array = new Uint8Array()) {
  const found = await runningDocument(wrapper).catch((thrown: unknown) => {
    throw unreadable([`${key}: ${Fault.from(thrown).message}`]);
  });
  if (found === undefined) throw unreadable([`${key}: the value holds no policy`]);
  return found;
}

function unreadable(lines: readonly string[]): Fault {
  const what =
    "policies.removal_guard: a policy in force that no source has cannot be read from the store";
  return new Fault("FAILED_PRECONDITION", `${what}: ${lines.join("; ")}`);
}

function configIn(key: string, bytes: Uint8Array | undefined): JsonObject | undefined {
  if (bytes === undefined) return undefined;
  try {
    // Leaders write only objects.
    return JSON.parse(new TextDecoder().decode(bytes)) as JsonObject;
  } catch {
    throw unreadable([`${key}: the value is not JSON`]);
  }
}
