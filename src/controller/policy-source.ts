// Sources of policies. A source offers policies and dynamic configuration; ownership.ts decides which of its
// policies run beside those of all other sources. `POLICY_ORIGINS` has one row for each kind of source.

import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import type { WrapperSource } from "#sync/publish/policy.ts";

interface OriginRow {
  /** The source in messages, as in "a file has a policy of this name". */
  readonly owner: string;
  /** The origin of a policy in messages, as in "came over the API". */
  readonly came: string;
  /** The source in the policy's stored wrapper message, which has no value for files. */
  readonly wrapperSource: WrapperSource;
  /** Whether its policies are changed and removed over the API. */
  readonly changedOverApi: boolean;
  /** Whether the source itself logs the warnings of its documents, with their places. */
  readonly logsWarnings: boolean;
  /** Whether its policies that run give way to those of every other source. */
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

/** A policy as its source has it now. */
export interface PolicyCandidate {
  readonly name: string;
  /**
   * The path of its file, its key in the store, or the path of its resource. Candidates of one location run together or not
   * at all.
   */
  readonly location: string;
  /** Undefined if the document has faults: a running version that came from this source then continues. */
  readonly policy: CompiledPolicy | undefined;
}

export interface PolicySource {
  readonly origin: PolicyOrigin;
  /**
   * Offers its policies for the first time, and from then on follows their changes. Absent where another part of the
   * controller tells the source about changes.
   * @throws Fault INVALID_ARGUMENT with every finding when its documents cannot be used.
   */
  start?(): Promise<void>;
  /** Stops following changes. */
  close?(): Promise<void>;
  candidates(): Iterable<PolicyCandidate>;
  /** The reason for which the present document of a location is not in force; undefined when it is. */
  faultsOf?(location: string): string | undefined;
  /** The dynamic configuration that this source has for a policy, whichever source the policy comes from. */
  dynamicConfig(name: string): JsonObject | undefined;
  /**
   * Called when other policies or dynamic configurations are in force, of whichever source, or other candidates of this
   * source are left out.
   */
  inForceChanged?(): void;
}

/** A policy in the version that is to run, and the dynamic configuration that goes with it. */
export interface PolicyVersion {
  readonly policy: CompiledPolicy;
  readonly origin: PolicyOrigin;
  /** Undefined: the policy's own values are in force. */
  readonly dynamicConfig: JsonObject | undefined;
}
