// A source of policies: policies and dynamic configurations that were uploaded through the API. They are in the store, from
// which every controller reads them. Each policy is validated on its own.

import { Fault } from "#base/fault.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { findingLine } from "#policy/format.ts";
import type { CompiledSet } from "#policy/set.ts";
import type { StoreUpdate } from "#store/store.ts";
import { documentText } from "#sync/follow/document.ts";
import { API_DYNAMIC_CONFIGS, API_POLICIES } from "#sync/keys.ts";
import type { PolicyCandidate, PolicySource } from "../policy-source.ts";

/** A policy in the store. */
export interface StoredPolicy {
  /** Undefined if the document has faults. */
  readonly compiled: CompiledPolicy | undefined;
  /** Undefined if it cannot be read as a policy. */
  readonly document: CompiledPolicy["document"] | undefined;
  /** The faults of the document; "" if it has none. */
  readonly faults: string;
}

interface ApiSourceOptions {
  readonly compile: (source: string, name: string, text: string) => Promise<CompiledSet>;
  /** Called when a value in the store is invalid; the previous value stays in force. */
  readonly failed: (name: string, fault: Fault) => void;
}

export class ApiSource implements PolicySource {
  readonly origin = "api";
  readonly #options: ApiSourceOptions;
  readonly #policies = new Map<string, StoredPolicy>();
  readonly #dynamicConfigs = new Map<string, JsonObject>();
  /** Documents that were compiled before they were stored. */
  readonly #announced = new Map<
    string,
    { readonly text: string; readonly compiled: CompiledPolicy }
  >();

  constructor(options: ApiSourceOptions) {
    this.#options = options;
  }

  /** By policy name. */
  get policies(): ReadonlyMap<string, StoredPolicy> {
    return this.#policies;
  }

  *candidates(): Generator<PolicyCandidate> {
    for (const [name, { compiled }] of this.#policies) {
      yield { name, location: API_POLICIES + name, policy: compiled };
    }
  }

  dynamicConfig(name: string): JsonObject | undefined {
    return this.#dynamicConfigs.get(name);
  }

  /**
   * Announces a document that is about to be stored, so that it is not compiled again when it is read back from the store. The
   * returned function withdraws the announcement.
   */
  announce(name: string, text: string, compiled: CompiledPolicy): () => void {
    const announced = { text, compiled };
    this.#announced.set(name, announced);
    return () => {
      if (this.#announced.get(name) === announced) this.#announced.delete(name);
    };
  }

  /**
   * Reads and compiles the changes of a batch. The returned function applies all of them. Read one batch at a time, so that no
   * change overtakes an earlier one.
   */
  async read({ puts, deletes }: StoreUpdate): Promise<() => void> {
    const changes: (() => void)[] = [];
    for (const key of deletes) {
      const policy = nameIn(key, API_POLICIES);
      const config = nameIn(key, API_DYNAMIC_CONFIGS);
      if (policy !== undefined) changes.push(() => this.#policies.delete(policy));
      if (config !== undefined) changes.push(() => this.#dynamicConfigs.delete(config));
    }
    for (const { key, value } of puts) {
      const policy = nameIn(key, API_POLICIES);
      const config = nameIn(key, API_DYNAMIC_CONFIGS);
      if (policy !== undefined) {
        const stored = await this.#readPolicy(policy, await documentText(value));
        changes.push(() => this.#policies.set(policy, stored));
      }
      if (config !== undefined) changes.push(() => this.#putConfig(config, textOf(value)));
    }
    return () => {
      for (const change of changes) change();
    };
  }

  async #readPolicy(name: string, text: string): Promise<StoredPolicy> {
    const announced = this.#announced.get(name);
    if (announced?.text === text) return stored(announced.compiled);
    try {
      const set = await this.#options.compile(API_POLICIES + name, name, text);
      const compiled = set.policies[0];
      if (set.findings.length === 0) return stored(compiled);
      const faults = set.findings.map(findingLine).join("; ");
      const document = compiled?.document ?? set.uncompiled?.[0];
      return { compiled: undefined, document, faults };
    } catch (thrown) {
      const fault = Fault.from(thrown);
      if (fault.code === "UNAVAILABLE") throw fault;
      this.#options.failed(name, fault);
      return { compiled: undefined, document: undefined, faults: fault.message };
    }
  }

  #putConfig(name: string, text: string): void {
    const config = parseObject(text);
    if (config !== undefined) this.#dynamicConfigs.set(name, config);
    else {
      const why =
        "its dynamic configuration in the store is not a JSON object; the previous one stays in force";
      this.#options.failed(name, new Fault("INVALID_ARGUMENT", why));
    }
  }
}

function stored(compiled: CompiledPolicy | undefined): StoredPolicy {
  return { compiled, document: compiled?.document, faults: "" };
}

/** The rest of a key after the prefix; undefined for other keys. */
function nameIn(key: string, prefix: string): string | undefined {
  return key.startsWith(prefix) ? key.slice(prefix.length) : undefined;
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Undefined when the text is not a JSON object. */
function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}
