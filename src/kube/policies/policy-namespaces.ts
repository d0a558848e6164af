// Follows the policy resources of the controllers' own namespace and of each team's namespace. Each has its own watch, because
// rights differ. The controller cannot lead without its own namespace; a team's namespace that cannot be read is retried.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { KubeClient } from "../api/client.ts";
import { type Following, Reflector } from "../api/reflector.ts";
import { POLICY_RESOURCES, type PolicyResource, policyNameOf, policyResource } from "./resource.ts";

export interface PolicyNamespacesOptions {
  readonly client: KubeClient;
  /** The namespaces of teams; the client knows the own one. */
  readonly namespaces: readonly string[];
  /** Called with all resources of a namespace first, and then with each change; undefined for a deleted resource. */
  readonly changed: (
    namespace: string,
    resources: ReadonlyMap<string, PolicyResource | undefined>,
  ) => void;
  readonly followed: (namespace: string, following: Following) => void;
  readonly clock: Clock;
  readonly chance: Chance;
}

/** The most resources of a namespace: each of them runs a circuit. */
const MAX_POLICIES = 10_000;

export class PolicyNamespaces {
  readonly #options: PolicyNamespacesOptions;
  readonly #reflectors: ReadonlyMap<string, Reflector<PolicyResource>>;

  constructor(options: PolicyNamespacesOptions) {
    this.#options = options;
    const { client, namespaces, changed, followed, clock, chance } = options;
    const own = client.namespace;
    const all = [own, ...namespaces.filter((namespace) => namespace !== own)];
    const reflectorOf = (namespace: string) =>
      new Reflector({
        client,
        resource: POLICY_RESOURCES,
        selection: { namespace },
        keep: (object) => policyResource(object, own),
        changed: ({ puts, deletes }) => {
          const resources = new Map<string, PolicyResource | undefined>();
          for (const key of deletes) {
            const name = key.slice(key.indexOf("/") + 1);
            resources.set(policyNameOf({ namespace, name }, own), undefined);
          }
          for (const resource of puts.values()) resources.set(resource.policy, resource);
          changed(namespace, resources);
        },
        followed: (following) => followed(namespace, following),
        clock,
        chance,
        maxObjects: MAX_POLICIES,
      });
    this.#reflectors = new Map(
      all.map((namespace) => [namespace, reflectorOf(namespace)] as const),
    );
  }

  /**
   * Resolves when each namespace has been listed or has failed.
   * @throws Fault when the own namespace has failed
   */
  async start(): Promise<void> {
    const { followed } = this.#options;
    const [own, ...teams] = this.#reflectors;
    await own?.[1].start().catch((thrown: unknown) => {
      throw startFault(Fault.from(thrown));
    });
    await Promise.all(
      teams.map(async ([namespace, reflector]) => {
        await reflector.start().catch((thrown: unknown) => {
          followed(namespace, { state: "away", fault: Fault.from(thrown) });
          reflector.follow();
        });
      }),
    );
  }

  async close(): Promise<void> {
    await Promise.all([...this.#reflectors.values()].map((reflector) => reflector.close()));
    for (const namespace of this.#reflectors.keys()) {
      this.#options.followed(namespace, { state: "starting" });
    }
  }
}

/** Names the configuration key and, if it is missing, the custom resource definition. */
function startFault({ code, message, cause }: Fault): Fault {
  const words = "policies.cr_watcher: the policy resources cannot be read";
  if (code !== "NOT_FOUND") return new Fault(code, `${words}: ${message}`, { cause });
  const missing = `the cluster has no custom resource definition ${POLICY_RESOURCES.plural}.${POLICY_RESOURCES.group}`;
  return new Fault("FAILED_PRECONDITION", `${words}: ${missing}`, { cause });
}
