// A real Envoy with the bootstraps of deploy/envoy, in front of the demo's service: what clients and the service see
// for every kind of answer, and which labels the agent reads from a request.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { RejectReason } from "#flow/flow.ts";
import { decode } from "#wire/protobuf/messages.ts";
import {
  type Client,
  type ClientReply,
  http1,
  http2,
  type RequestOptions,
} from "../kit/clients/http.ts";
import { folderOf } from "../kit/folder.ts";
import { AT, type Bootstrap } from "../kit/servers/bootstrap.ts";
import { type LogEntry, startEnvoy, startService } from "../kit/servers/envoy.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { POLICIES } from "./policies.ts";

const CHECK_RESPONSE = "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:aperture.check_response)%";

/** A filter behind ext_authz that copies the metadata into a header for the service. */
const NEXT_FILTER = {
  name: "envoy.filters.http.header_mutation",
  typed_config: {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
    mutations: {
      request_mutations: [{ append: { header: { key: "x-decision", value: CHECK_RESPONSE } } }],
    },
  },
};

function edit(bootstrap: Bootstrap): void {
  bootstrap.insert(AT.filters, 1, NEXT_FILTER);
  bootstrap.set([...AT.logFields, "id"], "%REQ(X-TEST-ID)%");
  // A machine that is busy with other tests must not look like an unreachable agent.
  bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "5s");
}

interface House {
  readonly address: string;
  readonly clients: ReadonlyMap<string, Client>;
  /** Sends a request, and returns the reply with what reached the service. */
  readonly ask: (
    asked: RequestOptions,
  ) => Promise<ClientReply & { readonly seen: Seen | undefined }>;
  /** The decision about the request, from the access log. */
  readonly decision: (id: string) => Promise<Decision>;
  readonly logged: (id: string) => Promise<LogEntry>;
}

interface Seen {
  readonly url: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

const decisionOf = (base64: string) =>
  decode("aperture.flowcontrol.check.v1.CheckResponse", Buffer.from(base64, "base64"));
type Decision = ReturnType<typeof decisionOf>;

async function house(test: TestContext, kind: "tcp" | "unix", raw = false): Promise<House> {
  const addr = kind === "tcp" ? "127.0.0.1:0" : `unix:${join(folderOf(test), "sluice.sock")}`;
  const sluice = await standalone(test, {
    policies: POLICIES,
    env: { SVC_AGENT_SERVER_LISTENER_ADDR: addr },
  });
  const envoy = await startEnvoy(test, {
    agent: sluice.address,
    service: await startService(test),
    edit(bootstrap) {
      edit(bootstrap);
      bootstrap.serviceSpeaksHttp1();
      if (raw) bootstrap.set([...AT.extAuthz, "encode_raw_headers"], true);
    },
  });
  const one = http1(test, envoy.url);
  const logged = (id: string) => envoy.logged(id, (entry) => entry["id"] === id);
  return {
    address: sluice.address,
    clients: new Map([
      ["HTTP/1.1", one],
      ["HTTP/2", http2(test, envoy.url)],
    ]),
    async ask(asked) {
      const answer = await one(asked);
      return { ...answer, seen: answer.status === 200 ? JSON.parse(answer.body) : undefined };
    },
    logged,
    decision: async (id) => decisionOf(String((await logged(id))["check_response"])),
  };
}

for (const kind of ["tcp", "unix"] as const) {
  test(`through Envoy over ${kind}`, async (t) => {
    const { address, ask, decision, clients, logged } = await house(t, kind);
    assert.equal(address.startsWith("unix:"), kind === "unix");

    await t.test("an accepted request reaches the service as it was", async () => {
      const { status, seen } = await ask({
        method: "POST",
        path: "/anything?q=1",
        headers: { "x-test-id": "accept", "x-own": "kept" },
        body: "payload",
      });
      assert.equal(status, 200);
      assert.equal(seen?.url, "/anything?q=1");
      assert.equal(seen?.body, "payload");
      assert.equal(seen?.headers["x-own"], "kept");
      const { decisionType, controlPoint } = await decision("accept");
      assert.deepEqual(
        { decisionType, controlPoint },
        { decisionType: 0, controlPoint: "ingress" },
      );
    });

    for (const [protocol, client] of clients) {
      await t.test(
        `a user over the limit gets 429 and when to come back, ${protocol}`,
        async () => {
          const path = "/limited/page";
          const user = (name: string) => client({ path, headers: { "x-user": name + protocol } });
          assert.deepEqual(await statuses(3, () => user("ann")), [200, 200, 429]);
          const { status, headers } = await user("ann");
          assert.equal(status, 429);
          assert.match(String(headers["retry-after"]), /^(59|60)$/);
          assert.equal((await user("bob")).status, 200);
        },
      );

      await t.test(`refusals without and with a status of their own, ${protocol}`, async () => {
        const shut = await client({ path: "/shut" });
        assert.deepEqual([shut.status, shut.headers["retry-after"]], [403, undefined]);
        assert.equal((await client({ path: "/busy" })).status, 503);
      });
    }

    await t.test(
      "labels from header, path, body and token reach the service as baggage",
      async () => {
        const id = "labels";
        const { seen } = await ask({
          method: "POST",
          path: "/orders/7?page=2",
          headers: {
            "x-test-id": id,
            "x-tenant": "acme corp",
            "content-type": "application/json",
            authorization: `Bearer ${unsigned({ sub: "user-7" })}`,
            baggage: "plan=free;p=1,other=1;x,subject=me",
          },
          body: JSON.stringify({ account: { plan: "gold" } }),
        });
        const baggage = String(seen?.headers["baggage"]).split(",");
        assert.deepEqual(baggage.sort(), [
          "endpoint=orders",
          "other=1;x",
          "plan=gold",
          "subject=user-7",
          "tenant=acme-corp",
        ]);
        const { telemetryFlowLabels: labels, flowLabelKeys } = await decision(id);
        const { endpoint, tenant, plan, subject, hidden, other } = labels;
        assert.deepEqual(
          { endpoint, tenant, plan, subject, other },
          // The shipped Envoy has baggage ignored: members of the client reach the service and are no labels.
          {
            endpoint: "orders",
            tenant: "acme-corp",
            plan: "gold",
            subject: "user-7",
            other: undefined,
          },
        );
        assert.equal(hidden, undefined);
        assert.ok(flowLabelKeys.includes("hidden"));
        assert.equal(labels["http.method"], "POST");
        assert.equal(labels["http.target"], "/orders/7?page=2");
        assert.ok(flowLabelKeys.includes("http.request.header.x_tenant"));
      },
    );

    await t.test("the next filter and the access log read the same decision", async () => {
      const { seen } = await ask({
        path: "/limited/other",
        headers: { "x-test-id": "metadata", "x-user": "carl" },
      });
      const shown = String(seen?.headers["x-decision"]);
      assert.equal((await logged("metadata"))["check_response"], shown);
      const { limiterDecisions, start, end } = decisionOf(shown);
      const [limiter, ...others] = limiterDecisions;
      assert.deepEqual(others, []);
      assert.equal(limiter?.policyName, "limits");
      assert.equal(limiter?.dropped, false);
      assert.equal(limiter?.rateLimiterInfo?.label, "http.request.header.x_user:carl");
      assert.equal(limiter?.rateLimiterInfo?.tokensInfo?.consumed, 1);
      assert.equal(limiter?.rateLimiterInfo?.tokensInfo?.remaining, 1);
      assert.ok(Number(start?.seconds) > 1_700_000_000 && end !== null);
    });

    await t.test("a refusal carries its decision too", async () => {
      await ask({ path: "/busy", headers: { "x-test-id": "refused" } });
      const entry = await logged("refused");
      assert.deepEqual([entry["status"], entry["flags"]], [503, "UAEX"]);
      assert.match(String(entry["details"]), /^ext_authz_denied/);
      const { decisionType, rejectReason, limiterDecisions } = await decision("refused");
      assert.equal(decisionType, 1);
      assert.equal(rejectReason, RejectReason.notSampled);
      assert.equal(limiterDecisions.find(({ dropped }) => dropped)?.policyName, "limits");
    });
  });
}

test("headers as raw values: encode_raw_headers", async (t) => {
  const { ask, decision } = await house(t, "tcp", true);
  const keyOf = async (id: string, user: string | readonly string[]) => {
    const headers = { "x-test-id": id, "x-user": user, "x-tenant": id };
    const { status, seen } = await ask({ path: "/limited/page", headers });
    assert.equal(status, 200);
    assert.match(String(seen?.headers["baggage"]), new RegExp(`tenant=${id}`));
    const { limiterDecisions } = await decision(id);
    return limiterDecisions[0]?.rateLimiterInfo?.label;
  };
  const label = "http.request.header.x_user";
  assert.equal(await keyOf("repeated", ["one", "two"]), `${label}:one,two`);
  assert.equal(await keyOf("no-utf-8", "caf\xe9"), `${label}:caf\xe9`);
  assert.equal(await keyOf("utf-8", "caf\xc3\xa9"), `${label}:caf\xe9`);
});

async function statuses(
  count: number,
  ask: () => Promise<ClientReply>,
): Promise<readonly number[]> {
  const seen: number[] = [];
  while (seen.length < count) seen.push((await ask()).status);
  return seen;
}

/** An unsigned token: classifiers read tokens and do not verify them. */
function unsigned(claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "none" })}.${part(claims)}.`;
}
