// Shared by tests of the recipes of deploy/recipes with a real Envoy: an agent with a limit, an Envoy that was told how to
// ask it, and a user who sends one request too many.

import type { TestContext } from "node:test";
import { http1 } from "../kit/clients/http.ts";
import type { Bootstrap } from "../kit/servers/bootstrap.ts";
import { type Envoy, startEnvoy, startService } from "../kit/servers/envoy.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const limit = (controlPoint: string) => `
circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ${controlPoint} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 5 } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 3600s, limit_by_label_key: http.request.header.x_user }
`;

/** The answers to six requests of one user where the limit is in force. */
export const BOUNDED = [200, 200, 200, 200, 200, 429];

/** An agent with a limit of five at the control point, behind an Envoy whose bootstrap `edit` changes. */
export async function limited(
  t: TestContext,
  controlPoint: string,
  edit: (bootstrap: Bootstrap, agent: string) => void,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly agent: string; readonly envoy: Envoy }> {
  const sluice = await standalone(t, { policies: { "limit.yaml": limit(controlPoint) }, env });
  const agent = sluice.address;
  const service = await startService(t);
  const envoy = await startEnvoy(t, { agent, service, edit: (of) => edit(of, agent) });
  return { agent, envoy };
}

/** The answers to six requests of one user. */
export async function six(t: TestContext, envoy: Envoy): Promise<readonly number[]> {
  const ask = http1(t, envoy.url);
  const statuses: number[] = [];
  for (let at = 0; at < 6; at++) {
    statuses.push((await ask({ headers: { "x-user": "ann" } })).status);
  }
  return statuses;
}
