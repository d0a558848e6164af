// Encodes a compiled policy as store entries: the policy itself, and the configuration of each of its parts for each
// agent group that the part names.

import type { AgentConfig, CompiledPolicy, ConfigKind, JsonObject } from "#policy/compiled.ts";
import { compactPolicy } from "#policy/message.ts";
import type { MessageName } from "#wire/protobuf/message-types.ts";
import { encodeJson } from "#wire/protobuf/messages.ts";
import {
  classifierName,
  componentName,
  configKey,
  fluxMeterName,
  infraMeterName,
  POLICIES,
} from "../keys.ts";

/** Name and hash of one version of a policy. */
export interface PolicyIdentity {
  readonly name: string;
  readonly hash: string;
}

/** The source of a policy in the wrapper's enum, which has no value for files. */
export type WrapperSource = "UNKNOWN" | "ETCD" | "K8S";

/** The entry that tells readers of the store which policies run. */
export function policyEntry(
  { name, hash, document }: PolicyIdentity & Pick<CompiledPolicy, "document">,
  source: WrapperSource,
): readonly [key: string, value: Uint8Array] {
  const value = encodeJson("aperture.policy.sync.v1.PolicyWrapper", {
    common_attributes: { policy_name: name, policy_hash: hash },
    policy: compactPolicy(document),
    source,
  });
  return [`${POLICIES}${name}`, value];
}

/** The entries of the parts of a policy that agents run, by key: one copy for each agent group. */
export function configEntries(
  policy: PolicyIdentity & Pick<CompiledPolicy, "configs">,
): ReadonlyMap<string, Uint8Array> {
  const entries = new Map<string, Uint8Array>();
  for (const config of policy.configs) {
    const { wrapper, message, nameIn } = (RESOURCES[config.kind] ?? componentEntry)(policy, config);
    const value = encodeJson(wrapper, message);
    for (const group of config.agentGroups) {
      entries.set(configKey(config.kind, nameIn(group)), value);
    }
  }
  return entries;
}

/** A wrapper message as JSON with proto names, and the last segment of its key in a group. */
interface ConfigEntry {
  readonly wrapper: MessageName;
  readonly message: JsonObject;
  nameIn(group: string): string;
}

type Wrap = (policy: PolicyIdentity, config: AgentConfig) => ConfigEntry;

/** Parts of a policy that are not components; their wrappers have attributes of their own. */
const RESOURCES: Readonly<Partial<Record<ConfigKind, Wrap>>> = {
  classifiers: (policy, { name, message }) => ({
    wrapper: "aperture.policy.sync.v1.ClassifierWrapper",
    message: {
      classifier_attributes: {
        policy_name: policy.name,
        policy_hash: policy.hash,
        classifier_index: name,
      },
      classifier: message,
    },
    nameIn: (group) => classifierName(group, policy.name, name),
  }),
  flux_meter: (policy, { name, message }) => ({
    wrapper: "aperture.policy.sync.v1.FluxMeterWrapper",
    message: { flux_meter: message, flux_meter_name: name, policy_name: policy.name },
    nameIn: (group) => fluxMeterName(group, name),
  }),
  infra_meter: (policy, { name, message }) => ({
    wrapper: "aperture.policy.sync.v1.InfraMeterWrapper",
    message: { infra_meter: message, infra_meter_name: name, policy_name: policy.name },
    nameIn: (group) => infraMeterName(group, policy.name, name),
  }),
};

/** All components are published in the same way: message, field and key are named after the kind. */
function componentEntry(policy: PolicyIdentity, { kind, name, message }: AgentConfig): ConfigEntry {
  return {
    wrapper: `aperture.policy.sync.v1.${pascalCase(kind)}Wrapper` as MessageName,
    message: {
      common_attributes: {
        policy_name: policy.name,
        policy_hash: policy.hash,
        component_id: name,
      },
      [kind]: message,
    },
    nameIn: (group) => componentName(group, policy.name, name),
  };
}

/** `rate_limiter` as `RateLimiter`. */
function pascalCase(kind: string): string {
  return kind.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
