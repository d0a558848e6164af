// What a client sees when the agent cannot be asked, and when it says no: every case run against real Envoy
// with `failure_mode_allow` off and on, and written down in docs/envoy-failures.md. RENEW=1 writes the page.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { authzServer } from "../kit/authz.ts";
import { AT, type Bootstrap } from "../kit/bootstrap.ts";
import { startEnvoy, startService } from "../kit/envoy.ts";
import { http1 } from "../kit/http-client.ts";
import { standalone, standaloneProcess } from "../kit/standalone.ts";
import { POLICIES } from "./policies.ts";

const PAGE = join(import.meta.dirname, "../../docs/envoy-failures.md");
const UNAVAILABLE = 14;

interface Case {
  readonly name: string;
  readonly path?: string;
  /** Starts what Envoy asks; gives its address. */
  readonly agent: (test: TestContext) => Promise<Agent>;
  readonly edit?: (bootstrap: Bootstrap) => void;
  /** Requests sent before the one that is written down. */
  readonly before?: number;
}

interface Agent {
  readonly address: string;
  /** Called when Envoy is ready, just before the request that is written down. */
  readonly spoil?: () => void;
}

const sluice = (test: TestContext) => standalone(test, { policies: POLICIES });

/** An address at which an agent was once. */
async function absent(test: TestContext): Promise<Agent> {
  const { address, child } = await standaloneProcess(test, { policies: POLICIES });
  child.kill("SIGKILL");
  await child.ended;
  return { address };
}

/** CheckResponse { status: { code } } and nothing beside it. */
const INSIDE = Uint8Array.of((1 << 3) | 2, 2, 1 << 3, UNAVAILABLE);

const CASES: readonly Case[] = [
  { name: "accepted", agent: sluice },
  {
    name: "refused by a rate limiter (429)",
    path: "/limited/page",
    before: 2,
    agent: sluice,
  },
  { name: "refused by a sampler (403, the default)", path: "/shut", agent: sluice },
  {
    name: "refused by a sampler with `denied_response_status_code: ServiceUnavailable`",
    path: "/busy",
    agent: sluice,
  },
  {
    name: "nobody listens at the agent's address",
    agent: absent,
  },
  {
    name: "the same, with `status_on_error: { code: ServiceUnavailable }`",
    edit: (bootstrap) =>
      bootstrap.set([...AT.extAuthz, "status_on_error"], { code: "ServiceUnavailable" }),
    agent: absent,
  },
  {
    name: "the agent goes away while the request waits",
    agent: async (test) => {
      const { address, child } = await standaloneProcess(test, { policies: POLICIES });
      return {
        address,
        spoil() {
          child.kill("SIGSTOP");
          // Long enough for the request to be under way, well before the health check's patience ends.
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
    name: "a reply with status UNAVAILABLE inside and no HTTP status",
    agent: async (test) => ({ address: await authzServer(test, INSIDE) }),
  },
  {
    name: "INVALID_ARGUMENT: no `control-point` in `initial_metadata`",
    edit: (bootstrap) => bootstrap.remove([...AT.extAuthz, "grpc_service", "initial_metadata"]),
    agent: sluice,
  },
];

interface Seen {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: string;
  readonly flags: string;
  readonly details: string;
}

/** Headers of every reply, which tell nothing here. */
const ORDINARY = new Set([
  ...["date", "server", "connection", "keep-alive", "content-length", "content-type"],
  ...["transfer-encoding", "x-envoy-upstream-service-time"],
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
      // Only where it is the point: a busy machine must not look like an agent that is late.
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
    // How many seconds depends on how long the test took so far.
    headers: shown.map(([name, value]) => `${name}: ${name === "retry-after" ? "N" : value}`),
    body: reached ? reachedBy(answer.body) : answer.body,
    flags: String(entry["flags"]),
    details: String(entry["details"]),
  };
}

/** What the service was told about a request that passed. */
function reachedBy(body: string): string {
  const { headers }: { headers: Record<string, string> } = JSON.parse(body);
  const marked = headers["x-envoy-auth-failure-mode-allowed"];
  return marked === undefined ? "" : `x-envoy-auth-failure-mode-allowed: ${marked}`;
}

function cell({ status, headers, body, flags, details }: Seen): string {
  const told = [`**${status}**`, ...headers.map((header) => `\`${header}\``)];
  if (status !== 200) told.push(body === "" ? "empty body" : `body \`${body}\``);
  else told.push("from the service", ...(body === "" ? [] : [`which sees \`${body}\``]));
  const log = `${flags === "-" ? "no flags" : flags}, \`${details}\``;
  return `${told.join(", ")} (log: ${log})`;
}

function page(rows: readonly (readonly [Case, Seen, Seen])[]): string {
  const lines = rows.map(([{ name }, off, on]) => `| ${name} | ${cell(off)} | ${cell(on)} |`);
  return `# What a client sees when Envoy asks and gets no yes

Every row was run against real Envoy with \`deploy/envoy/sidecar.yaml\`, once with \`failure_mode_allow: false\`
and once with \`true\` (and \`failure_mode_allow_header_add: true\`). \`make test\` runs them again and compares;
\`RENEW=1 node --test test/envoy/failures.test.ts\` writes this page.

| What happens | \`failure_mode_allow: false\` | \`failure_mode_allow: true\` |
| --- | --- | --- |
${lines.join("\n")}

N is a whole number of seconds. In the access log, \`ext_authz_denied\` is a decision and \`ext_authz_error\`
is none; both carry the flag UAEX. A decision is the same whatever \`failure_mode_allow\` says: Sluice's
refusals hold the status UNAVAILABLE inside a reply, and a reply is a decision. Without a decision Envoy
refuses with its \`status_on_error\`, 403 unless set; set it where clients must tell an outage from a refusal.
`;
}

test("what a client sees is what docs/envoy-failures.md says", async (t) => {
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
