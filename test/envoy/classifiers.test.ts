// The parts of a request that classifiers read behind a real Envoy: bodies that it sends whole or cut, and the metadata
// of filters that run before ext_authz.

import assert from "node:assert/strict";
import { test } from "node:test";
import { http1 } from "../kit/clients/http.ts";
import { AT, type Bootstrap } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const POLICY = `
circuit: { components: [] }
resources:
  flow_control:
    classifiers:
      - selectors: [{ control_point: ingress }]
        rules:
          plan:
            unreadable_value: unread
            extractor: { json: { from: request.http.body, pointer: /plan } }
          tenant: { extractor: { from: metadataContext.filterMetadata.shop.tenant } }
          rank: { extractor: { from: metadataContext.filterMetadata.shop.customer.rank } }
          flags: { extractor: { json: { from: metadataContext.filterMetadata.shop, pointer: /customer/flags/1 } } }
          not_sent: { extractor: { from: metadataContext.filterMetadata.private.tenant } }
`;

const TYPE = "type.googleapis.com/envoy.extensions.filters.http";

/** Sets metadata that is the same for all requests. */
const SET_METADATA = {
  name: "set",
  typed_config: {
    "@type": `${TYPE}.set_metadata.v3.Config`,
    metadata: [
      {
        metadata_namespace: "shop",
        value: { customer: { rank: 3, flags: ["new", "big"] } },
        allow_overwrite: true,
      },
      { metadata_namespace: "private", value: { tenant: "hidden" } },
    ],
  },
};

/** Sets metadata from a header of the request. */
const HEADER_TO_METADATA = {
  name: "header",
  typed_config: {
    "@type": `${TYPE}.header_to_metadata.v3.Config`,
    request_rules: [
      {
        header: "x-tenant",
        on_header_present: { metadata_namespace: "shop", key: "tenant", type: "STRING" },
      },
    ],
  },
};

const MAX_BODY = 64;

function edit(bootstrap: Bootstrap): void {
  bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "5s");
  bootstrap.set([...AT.extAuthz, "with_request_body"], {
    max_request_bytes: MAX_BODY,
    allow_partial_message: true,
  });
  bootstrap.set([...AT.extAuthz, "metadata_context_namespaces"], ["shop"]);
  bootstrap.insert(AT.filters, 0, HEADER_TO_METADATA);
  bootstrap.insert(AT.filters, 0, SET_METADATA);
}

for (const raw of [false, true]) {
  test(`classifiers behind Envoy, encode_raw_headers: ${raw}`, async (t) => {
    const sluice = await standalone(t, { policies: { "labels.yaml": POLICY } });
    const envoy = await startEnvoy(t, {
      agent: sluice.address,
      service: await startService(t),
      edit(bootstrap) {
        bootstrap.set([...AT.extAuthz, "encode_raw_headers"], raw);
        edit(bootstrap);
      },
    });
    const ask = http1(t, envoy.url);

    /** The labels that classifiers made, from the baggage that the service got, and the body that it got. */
    async function labelsOf(body: string, headers: Readonly<Record<string, string>> = {}) {
      const reply = await ask({ method: "POST", path: "/", headers, body });
      assert.equal(reply.status, 200);
      const seen = JSON.parse(reply.body);
      const baggage = String(seen.headers.baggage ?? "");
      const members = baggage === "" ? [] : baggage.split(",").map((member) => member.split("="));
      const labels: Record<string, string | undefined> = Object.fromEntries(members);
      return { plan: labels["plan"], body: seen.body, labels };
    }

    await t.test("a whole body gives its label", async () => {
      const body = JSON.stringify({ plan: "gold" });
      assert.equal((await labelsOf(body)).plan, "gold");
      const full = body.padEnd(MAX_BODY - 1);
      assert.equal((await labelsOf(full)).plan, "gold");
    });

    await t.test("a body that Envoy cut gives the value of unreadable ones", async () => {
      for (const body of [
        JSON.stringify({ plan: "gold", filler: "x".repeat(MAX_BODY) }),
        // The rest of it would be a whole document.
        JSON.stringify({ plan: "gold" }).padEnd(MAX_BODY * 2),
      ]) {
        const { plan, body: served } = await labelsOf(body);
        assert.equal(plan, "unread");
        assert.equal(served, body);
      }
    });

    await t.test("a client cannot state that its body was cut, nor that it was not", async () => {
      const stated = (value: string) => ({ "x-envoy-auth-partial-body": value });
      const whole = JSON.stringify({ plan: "gold" });
      assert.equal((await labelsOf(whole, stated("true"))).plan, "gold");
      assert.equal((await labelsOf(whole.padEnd(MAX_BODY * 2), stated("false"))).plan, "unread");
    });

    await t.test("metadata of other filters gives labels", async () => {
      const { labels } = await labelsOf("{}", { "x-tenant": "acme" });
      assert.deepEqual(labels, { tenant: "acme", rank: "3", flags: "big" });
      assert.deepEqual((await labelsOf("{}")).labels, { rank: "3", flags: "big" });
    });
  });
}
