// Sources of policies. A source offers policies and dynamic configurations; `ownership.ts` decides which offers run when
// sources compete. `POLICY_ORIGINS` has one row for each kind of source.

import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import type { WrapperSource } from "#sync/publish/policy.ts";

interface OriginRow {
  /** Names the source in messages: "a file has a policy of this name". */
  readonly owner: string;
  /** Names the origin in messages: "came over the API". */
  readonly came: string;
  /** The source in the policy's stored wrapper message. */
  readonly wrapperSource: WrapperSource;
  /** True if the API may change and remove its policies. */
  readonly changedOverApi: boolean;
  /** True if the source itself logs the warnings of its documents, with their places. */
  readonly logsWarnings: boolean;
  /** True if its running policies yield to those of every other source. */
  readonly yields: boolean;
}

export const POLICY_ORIGINS = {
  file: {
    owner: "a file",
    came: "from a file",
    wrapperSource: "UNKNOWN",
    changedOverApi: false,
    logsWarnings: true,
    yields: false,
  },
  resource: {
    owner: "a Kubernetes resource",
    came: "from a Kubernetes resource",
    wrapperSource: "K8S",
    changedOverApi: false,
    logsWarnings: false,
    yields: false,
  },
  api: {
    owner: "the API",
    came: "over the API",
    wrapperSource: "ETCD",
    changedOverApi: true,
    logsWarnings: false,
    yields: false,
  },
  kept: {
    owner: "an earlier leader",
    came: "from an earlier leader",
    wrapperSource: "UNKNOWN",
    changedOverApi: true,
    logsWarnings: false,
    yields: true,
  },
} as const satisfies Readonly<Record<string, OriginRow>>;

export type PolicyOrigin = keyof typeof POLICY_ORIGINS;

/** A policy that a source offers. */
export interface PolicyCandidate {
  readonly name: string;
  /**
   * The path of its file or resource, or its store key. Offers of one location run together or not at all.
   */
  readonly location: string;
  /** Undefined for an invalid document: a running version from this source then continues. */
  readonly policy: CompiledPolicy | undefined;
}

export interface PolicySource {
  readonly origin: PolicyOrigin;
  /**
   * Loads the policies, and then follows their changes. Absent if another part of the controller feeds the source.
   * @throws Fault INVALID_ARGUMENT with every finding for invalid documents
   */
  start?(): Promise<void>;
  /** Stops following changes. */
  close?(): Promise<void>;
  candidates(): Iterable<PolicyCandidate>;
  /** The reason why the present document of a location is not in force; undefined when it is. */
  faultsOf?(location: string): string | undefined;
  /** The dynamic configuration that this source has for a policy of any source. */
  dynamicConfig(name: string): JsonObject | undefined;
  /**
   * Called when the policies or dynamic configurations in force changed, or the offers of this source that are left out.
   */
  inForceChanged?(): void;
}

/** A version of a policy to run, with its dynamic configuration. */
export interface PolicyVersion {
  readonly policy: CompiledPolicy;
  readonly origin: PolicyOrigin;
  /** Undefined for the policy's own values. */
  readonly dynamicConfig: JsonObject | undefined;
}
