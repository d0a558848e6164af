import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { createOperationContext } from "#api/context.ts";
import { httpRoutes } from "#api/endpoints.ts";
import { NO_SERVICES, type ServiceLookup } from "#api/service-lookup.ts";
import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, type Verdict } from "#flow/flow.ts";
import { agentOf, callOf, embedded, NO_RECORDS, post } from "../../kit/api/agent.ts";
import { perUser, threeEach } from "../../kit/api/corpus.ts";

const PATH = "/v1/flowcontrol/checkhttp";

const KNOWN: ServiceLookup = {
  byAddress: (address) => (address === "10.0.0.1" ? ["a.svc", "b.svc"] : []),
};

/** An agent that is asked in JSON. A body with an unknown member is read by the general reader. */
function jsonAgent(lookup: ServiceLookup) {
  const { flowController, observer } = agentOf([[perUser, { ...threeEach, bucketCapacity: 40 }]]);
  const table = httpRoutes(
    createOperationContext(flowController, lookup, seededChance(3)),
    NO_RECORDS,
  );
  return {
    observer,
    async check(body: object) {
      const call = callOf();
      const reply = await post(table, PATH, body, call);
      const { dynamic_metadata, ...said } = JSON.parse(String(reply.body));
      return { said, metadata: embedded(dynamic_metadata), replied: [...call.replied] };
    },
  };
}

const word = fc.stringMatching(/^[ -!#-[\]-~ä€]{1,12}$/);
const name = fc.oneof(
  fc.constantFrom("user-id", "user_id", "User-Id", "baggage", ":path", "accept", "tokens"),
  word,
);
const value = fc.oneof(word, fc.constantFrom("a=b", "k=v,user=ann", "2", ""));
const socket = fc.record({ address: fc.constantFrom("10.0.0.1", "10.0.0.2"), port: fc.nat(9_999) });
const document = fc.record(
  {
    source: socket,
    destination: socket,
    request: fc.record(
      {
        method: word,
        path: word,
        host: word,
        scheme: word,
        protocol: fc.constantFrom("HTTP/1.1", "HTTP/2", "HTTP/3", "HTTP/1.0", "constructor", "x"),
        size: fc.integer(),
        body: word,
        headers: fc.dictionary(name, value, { minKeys: 1, maxKeys: 5 }),
      },
      { requiredKeys: [] },
    ),
    control_point: fc.constantFrom("here", "elsewhere"),
    ramp_mode: fc.boolean(),
    expect_end: fc.boolean(),
  },
  { requiredKeys: ["request", "control_point"] },
);

describe("a CheckHTTP request in JSON", () => {
  it("gets the same answer whether it is read in place or by the general reader", async () => {
    for (const lookup of [NO_SERVICES, KNOWN]) {
      const one = jsonAgent(lookup);
      const other = jsonAgent(lookup);
      await fc.assert(
        fc.asyncProperty(document, async (body) => {
          assert.deepEqual(await one.check(body), await other.check({ ...body, unknown: 1 }));
        }),
        { numRuns: 200 },
      );
      assert.deepEqual(one.observer.anomalies, other.observer.anomalies);
      assert.ok(one.observer.anomalies.length > 0);
    }
  });

  it("is copied while it waits for its verdict, and shares nothing with other checks", async () => {
    const waiting: (() => void)[] = [];
    const { flowController } = agentOf([]);
    const slow = {
      ...flowController,
      judge(flow: Flow) {
        const pending = new Pending<Verdict>();
        waiting.push(() => {
          const judged = flowController.judge(flow);
          assert.ok(!(judged instanceof Pending));
          pending.settle(judged);
        });
        return pending;
      },
    };
    const [route] = httpRoutes(
      createOperationContext(slow, NO_SERVICES, seededChance(3)),
      NO_RECORDS,
    );
    assert.equal(route?.path, PATH);
    const bodies = ["/one", "/two"].map((path) =>
      Buffer.from(JSON.stringify({ control_point: "here", request: { path } })),
    );
    const base = { method: "POST", path: PATH, query: new URLSearchParams(), params: {} };
    const replies = bodies.map((body) => route.handle({ ...base, headers: {}, body }, callOf()));
    for (const body of bodies) body.fill(0x78);
    for (const settle of waiting.reverse()) settle();
    const said = await Promise.all(replies);
    const targets = said.map(({ body }) => {
      const { check_response } = JSON.parse(String(body));
      return check_response.telemetry_flow_labels["http.target"];
    });
    assert.deepEqual(targets, ["/one", "/two"]);
  });
});
