// The replies to clients of a real Envoy when the agent rejects a request and when it cannot be asked, with
// `failure_mode_allow` off and on. The result is docs/envoy-failures.md, which RENEW=1 writes.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { http1 } from "../kit/clients/http.ts";
import { authzServer } from "../kit/servers/authz.ts";
import { AT, type Bootstrap } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { standalone, standaloneProcess } from "../kit/sluice/standalone.ts";
import { POLICIES } from "./policies.ts";

const PAGE = join(import.meta.dirname, "../../docs/envoy-failures.md");
const UNAVAILABLE = 14;

interface Case {
  readonly name: string;
  readonly path?: string;
  /** Starts the server that Envoy asks, and returns its address. */
  readonly agent: (test: TestContext) => Promise<Agent>;
  readonly edit?: (bootstrap: Bootstrap) => void;
  /** Number of requests sent before the one that is recorded. */
  readonly before?: number;
}

interface Agent {
  readonly address: string;
  /** Called when Envoy is ready, just before the request that is recorded. */
  readonly spoil?: () => void;
}

const sluice = (test: TestContext) => standalone(test, { policies: POLICIES });

/** The address of an agent that has been killed. */
async function absent(test: TestContext): Promise<Agent> {
  const { address, child } = await standaloneProcess(test, { policies: POLICIES });
  child.kill("SIGKILL");
  await child.ended;
  return { address };
}

/** A CheckResponse with `status.code` and no other field. */
const INSIDE = Uint8Array.of((1 << 3) | 2, 2, 1 << 3, UNAVAILABLE);

const CASES: readonly Case[] = [
  { name: "accepted", agent: sluice },
  {
    name: "rejected by a rate limiter (429)",
    path: "/limited/page",
    before: 2,
    agent: sluice,
  },
  { name: "rejected by a sampler (403, the default)", path: "/shut", agent: sluice },
  {
    name: "rejected by a sampler with `denied_response_status_code: ServiceUnavailable`",
    path: "/busy",
    agent: sluice,
  },
  {
    name: "no process listens at the agent's address",
    agent: absent,
  },
  {
    name: "the same, without `status_on_error`",
    edit: (bootstrap) => bootstrap.remove([...AT.extAuthz, "status_on_error"]),
    agent: absent,
  },
  {
    name: "the agent is killed while the request waits",
    agent: async (test) => {
      const { address, child } = await standaloneProcess(test, { policies: POLICIES });
      return {
        address,
        spoil() {
          child.kill("SIGSTOP");
          // Long enough for the request to be in flight, and well before the health check times out.
          setTimeout(() => child.kill("SIGKILL"), 300);
        },
      };
    },
  },
  {
    name: "no answer within `grpc_service.timeout`",
    edit: (bootstrap) => bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "0.25s"),
    agent: async (test) => {
      const { address, child } = await standaloneProcess(test, { policies: POLICIES });
      return { address, spoil: () => child.kill("SIGSTOP") };
    },
  },
  {
    name: "the call ends with gRPC status UNAVAILABLE",
    agent: async (test) => ({
      address: await authzServer(test, { code: UNAVAILABLE, details: "shutting down" }),
    }),
  },
  {
    name: "the reply has status UNAVAILABLE inside and no HTTP status",
    agent: async (test) => ({ address: await authzServer(test, INSIDE) }),
  },
  {
    name: "INVALID_ARGUMENT: no `control-point` in `initial_metadata`",
    edit: (bootstrap) => bootstrap.remove([...AT.extAuthz, "grpc_service", "initial_metadata"]),
    agent: sluice,
  },
  {
    name: "RESOURCE_EXHAUSTED: the check is longer than `server.grpc.max_message_bytes`",
    path: `/${"x".repeat(5_000)}`,
    agent: (test) =>
      standalone(test, {
        policies: POLICIES,
        env: { SVC_AGENT_SERVER_GRPC_MAX_MESSAGE_BYTES: "4096" },
      }),
  },
];

interface Seen {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: string;
  readonly flags: string;
  readonly details: string;
}

/** Headers that every reply has. They are left out of the page. */
const ORDINARY = new Set([
  "date",
  "server",
  "connection",
  "keep-alive",
  "content-length",
  "content-type",
  "transfer-encoding",
  "x-envoy-upstream-service-time",
]);

interface Run {
  /** Port of the service behind Envoy. */
  readonly service: number;
  /** `failure_mode_allow`. */
  readonly allow: boolean;
}

async function run(
  test: TestContext,
  { path = "/", agent, edit, before = 0 }: Case,
  { service, allow }: Run,
): Promise<Seen> {
  const { address, spoil } = await agent(test);
  const envoy = await startEnvoy(test, {
    agent: address,
    service,
    edit(bootstrap) {
      bootstrap.set([...AT.extAuthz, "failure_mode_allow"], allow);
      bootstrap.set([...AT.extAuthz, "failure_mode_allow_header_add"], true);
      bootstrap.set([...AT.logFields, "id"], "%REQ(X-TEST-ID)%");
      // Cases about this timeout set it themselves; elsewhere a busy machine must not look like a late agent.
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "10s");
      edit?.(bootstrap);
    },
  });
  const ask = http1(test, envoy.url);
  const headers = { "x-user": "ann" };
  for (let sent = 0; sent < before; sent++)
    assert.equal((await ask({ path, headers })).status, 200);
  spoil?.();
  const answer = await ask({ path, headers: { ...headers, "x-test-id": "it" } });
  const entry = await envoy.logged("the request", ({ id }) => id === "it");
  const shown = Object.entries(answer.headers).filter(([name]) => !ORDINARY.has(name));
  const reached = answer.status === 200;
  return {
    status: answer.status,
    // The number of seconds depends on how long the test has taken so far.
    headers: shown.map(([name, value]) => `${name}: ${name === "retry-after" ? "N" : value}`),
    body: reached ? reachedBy(answer.body) : answer.body,
    flags: String(entry["flags"]),
    details: String(entry["details"]),
  };
}

/** The header by which Envoy tells the service that the request passed without a decision. */
function reachedBy(body: string): string {
  const { headers }: { headers: Record<string, string> } = JSON.parse(body);
  const marked = headers["x-envoy-auth-failure-mode-allowed"];
  return marked === undefined ? "" : `x-envoy-auth-failure-mode-allowed: ${marked}`;
}

function cell({ status, headers, body, flags, details }: Seen): string {
  const parts = [`**${status}**`, ...headers.map((header) => `\`${header}\``)];
  if (status !== 200) parts.push(body === "" ? "empty body" : `body \`${body}\``);
  else parts.push("from the service", ...(body === "" ? [] : [`which sees \`${body}\``]));
  const log = `${flags === "-" ? "no flags" : flags}, \`${details}\``;
  return `${parts.join(", ")} (log: ${log})`;
}

function page(rows: readonly (readonly [Case, Seen, Seen])[]): string {
  const lines = rows.map(([{ name }, off, on]) => `| ${name} | ${cell(off)} | ${cell(on)} |`);
  return `# What clients of Envoy see when a check does not accept

After this page you have chosen what Envoy does while it gets no decision. It takes three minutes.

Envoy asks Sluice about each request and acts on the answer. This page lists what its clients see when Sluice rejects a request, and when
Envoy gets no decision. In the second case \`failure_mode_allow\` decides whether Envoy lets the request through.

Every row was run against a real Envoy with \`deploy/envoy/sidecar.yaml\`, once with \`failure_mode_allow: false\` and once with
\`true\` (and \`failure_mode_allow_header_add: true\`). \`make test\` runs them again and compares; \`RENEW=1 node --test test/envoy/failures.test.ts\` writes this page.

| What happens | \`failure_mode_allow: false\` | \`failure_mode_allow: true\` |
| --- | --- | --- |
${lines.join("\n")}

N is a whole number of seconds. In the access log, \`ext_authz_denied\` means that Sluice rejected the request, and \`ext_authz_error\`
that Envoy got no decision; both have the flag UAEX. A rejection is final whatever \`failure_mode_allow\` says: it is a reply with the
status UNAVAILABLE inside, and every reply is a decision. Without a decision Envoy rejects the request with \`status_on_error\`, by
default 403, which clients would take for a rejection; the bootstraps set 503.

An agent that gets more checks than it can judge sheds some, those of costly callers first. They get a decision too, whatever \`failure_mode_allow\`
says: limiters reject costly callers, and for others \`on_failure\` in their policies decides ([when a limiter cannot decide](policy-components.md#when-a-limiter-cannot-decide)). By
default their requests pass; with \`on_failure: closed\` clients see the same rejections as from the limiter. Envoy does not pass the header
\`x-sluice-shed\` of the agent's reply on; \`sluice_shed_checks_total\` of the agent counts them.

## What to choose

The choice matters only while Envoy gets no decision: Sluice restarts, cannot be reached, or does not answer in time. Clients can cause the last
row, with a request that makes the check longer than 4 MiB (Envoy's limits on headers and on \`with_request_body\` are far below that in
the bootstraps): with \`true\` such a request passes unlimited. Envoy cannot choose by
policy, so the choice is one for each listener or route.

| | \`failure_mode_allow: false\`, as in the bootstraps | \`failure_mode_allow: true\` |
| --- | --- | --- |
| While there is no decision | every user gets 503 | every user gets through, with no limit |
| The service behind Envoy | is protected, and gets no work | gets all of the load, also the load that the limits were made for |
| Quotas, paid plans, abuse | hold | do not hold until decisions come back |
| What users notice | an outage, which they can retry: 503 is not 429 | nothing, unless the service fails under the load |
| What you notice | 5xx with \`ext_authz_error\` in the access log | the header \`x-envoy-auth-failure-mode-allowed\` at the service (with \`failure_mode_allow_header_add: true\`), and the filter's counter \`failure_mode_allowed\` in Envoy's statistics |
| Fits | limits that protect: a database, a partner's quota, money | limits for fairness or comfort before a service that can stand its peak |
`;
}

test("docs/envoy-failures.md says what clients see", async (t) => {
  const service = await startService(t);
  const rows: (readonly [Case, Seen, Seen])[] = [];
  for (const each of CASES) {
    await t.test(each.name, async (t) => {
      const [off, on] = await Promise.all([
        run(t, each, { service, allow: false }),
        run(t, each, { service, allow: true }),
      ]);
      rows.push([each, off, on]);
    });
  }
  const fresh = page(rows);
  if (process.env["RENEW"] !== undefined) writeFileSync(PAGE, fresh);
  assert.equal(fresh, readFileSync(PAGE, "utf8"));
});
