// A controller that runs policy resources, beside an API server that the test plays.

import type { TestContext } from "node:test";
import type { FakePolicies } from "../../kit/kube/fake-policies.ts";
import { standalone } from "../../kit/sluice/standalone.ts";
import { until } from "../../kit/until.ts";

interface Settings {
  /** Policies of files, by their names. */
  readonly policies?: Readonly<Record<string, string>>;
  /** Variables of the controller. */
  readonly controller?: Readonly<Record<string, string>>;
}

/** Starts it, and returns what asks it. */
export async function running(
  t: TestContext,
  cluster: FakePolicies,
  { policies = {}, controller = {} }: Settings = {},
) {
  const { address } = await standalone(t, {
    policies,
    controller: { SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED: "true", ...controller },
    variables: cluster.variables,
  });
  const json = async (path: string, init: RequestInit = {}) => {
    const headers = { "content-type": "application/json" };
    const reply = await fetch(`http://${address}${path}`, { headers, ...init });
    // biome-ignore lint/suspicious/noExplicitAny: replies of several routes, whose fields a test names
    return { status: reply.status, body: (await reply.json()) as any };
  };
  /** Share that the sampler of a policy decided last, in percent; undefined without one. */
  const share = async (name: string) => {
    const { body } = await json("/v1/decisions/sampler");
    const text = Object.entries(body.decisions).find(([key]) => key.includes(`policy-${name}-`));
    return text && JSON.parse(String(text[1])).samplerDecision?.acceptPercentage;
  };
  const shares = (name: string, percent: number | undefined) =>
    until(`${name} lets ${percent} % pass`, async () => (await share(name)) === percent);
  return { json, share, shares };
}
