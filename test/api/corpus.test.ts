import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import fc from "fast-check";
import { AUTHORIZATION_SERVICE, CHECK_HTTP_SERVICE, CHECK_SERVICE } from "#api/endpoints.ts";
import { forwardTo } from "#api/gateway.ts";
import type { Call } from "#base/handler.ts";
import { GrpcClient } from "#client/grpc.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { agentOf, endpointsOf, forwardedRoutes } from "../kit/api/agent.ts";
import {
  type Ask,
  type CheckEndpoints,
  ENDPOINTS,
  RULES,
  type Seen,
  type Step,
  step,
  walk,
} from "../kit/api/corpus.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { http1 } from "../kit/clients/http.ts";
import { realClock, testPort } from "../kit/sluice/port.ts";

const CheckRequestSchema = schemaOf("aperture.flowcontrol.check.v1.CheckRequest");
const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const FlowEndRequestSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndRequest");
const FlowEndResponseSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndResponse");
const CheckHTTPRequestSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest");
const CheckHTTPResponseSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse");
const AuthRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
const AuthResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

const { proxy, rawProxy, ...WITH_RAMP } = ENDPOINTS;
const unramped = (steps: readonly Step[]) => steps.map((each) => ({ ...each, ramp: false }));
const isSeen = (one: Seen | boolean): one is Seen => typeof one !== "boolean";

describe("all endpoints", () => {
  it("decide alike, request for request, and leave the same state", async () => {
    const corpus = fc.array(step, { minLength: 5, maxLength: 25 });
    const met = new Set<string>();
    const inProcess = async (ask: Ask, steps: readonly Step[]) => {
      const { flowController, clock, observer } = agentOf(RULES);
      const seen = await walk(endpointsOf(flowController), ask, steps, clock.advance);
      assert.equal(observer.verdicts.length, seen.filter(isSeen).length);
      return seen;
    };
    const compare = async (asks: readonly Ask[], steps: readonly Step[]) => {
      const [first, ...others] = await Promise.all(asks.map((ask) => inProcess(ask, steps)));
      for (const seen of others) assert.deepEqual(seen, first);
      for (const one of first ?? []) {
        if (!isSeen(one)) met.add(`returned ${one}`);
        else {
          met.add(`reason ${one.reason} ${one.status}`);
          for (const { by, dropped } of one.decisions) met.add(`${by} ${dropped}`);
        }
      }
    };
    await fc.assert(
      fc.asyncProperty(corpus, async (steps) => {
        await compare(Object.values(ENDPOINTS), unramped(steps));
        await compare(Object.values(WITH_RAMP), steps);
      }),
      { numRuns: 40, seed: 7 },
    );
    // Every limiter accepted and refused at least once, and every reason occurred.
    assert.deepEqual([...met].sort(), [
      "p h1 root.0 false",
      "p h1 root.0 true",
      "p h1 root.1 false",
      "p h1 root.1 true",
      "p h1 root.2 false",
      "p h1 root.2 true",
      "q h2 root.0 false",
      "q h2 root.0 true",
      "q h2 root.1 false",
      "q h2 root.1 true",
      "reason 0 0",
      "reason 1 429",
      "reason 1 503",
      "reason 3 403",
      "reason 4 0",
      "reason 4 403",
      "returned false",
      "returned true",
    ]);
  });
});

/** The endpoints of an agent behind real ports: JSON in process, or through a port that forwards. */
async function overSockets(test: TestContext, forwarded: boolean) {
  const agent = agentOf(RULES);
  const { services, routes } = endpointsOf(agent.flowController);
  const judging = await testPort(test, { services, routes });
  const grpc = grpcClient(test, judging.address);
  let jsonPort = judging;
  if (forwarded) {
    const client = new GrpcClient({ address: judging.address });
    test.after(() => client.close());
    const gateway = forwardedRoutes(forwardTo(client, realClock), agent.flowController);
    jsonPort = await testPort(test, { routes: gateway });
  }
  const http = http1(test, `http://${jsonPort.address}`);
  const unary =
    <In extends DescMessage, Out extends DescMessage>(path: string, input: In, output: Out) =>
    async (init: MessageInitShape<In>, call?: Call) => {
      const metadata = { "control-point": call?.header("control-point") ?? "" };
      const options = metadata["control-point"] === "" ? {} : { metadata };
      const reply = await grpc.unary(path, toBinary(input, create(input, init)), options);
      assert.ok(reply.message !== undefined, reply.details);
      assert.match(String(reply.metadata["x-sluice-decision-id"] ?? path), /^[\w-]{12}$|FlowEnd$/);
      return fromBinary(output, reply.message);
    };
  const json = (name: string) => async (body: unknown) => {
    const reply = await http({
      method: "POST",
      path: `/v1/flowcontrol/${name}`,
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
    });
    assert.equal(reply.status, 200, reply.body);
    return JSON.parse(reply.body);
  };
  const endpoints: CheckEndpoints = {
    proxy: unary(`/${AUTHORIZATION_SERVICE}/Check`, AuthRequestSchema, AuthResponseSchema),
    checkHttp: unary(
      `/${CHECK_HTTP_SERVICE}/CheckHTTP`,
      CheckHTTPRequestSchema,
      CheckHTTPResponseSchema,
    ),
    check: unary(`/${CHECK_SERVICE}/Check`, CheckRequestSchema, CheckResponseSchema),
    flowEnd: unary(`/${CHECK_SERVICE}/FlowEnd`, FlowEndRequestSchema, FlowEndResponseSchema),
    checkHttpJson: json("checkhttp"),
    checkJson: json("check"),
    flowEndJson: json("flowend"),
  };
  return { endpoints, advance: agent.clock.advance };
}

describe("all endpoints over real ports", () => {
  const steps = fc.sample(step, { numRuns: 25, seed: 11 });

  it("decide as they do in process, also behind a forwarding gateway", async (test) => {
    for (const [name, ask] of Object.entries(ENDPOINTS)) {
      const asked = ask === proxy || ask === rawProxy ? unramped(steps) : steps;
      const { flowController, clock } = agentOf(RULES);
      const near = await walk(endpointsOf(flowController), ask, asked, clock.advance);
      for (const forwarded of name.endsWith("Json") ? [false, true] : [false]) {
        const { endpoints, advance } = await overSockets(test, forwarded);
        assert.deepEqual(await walk(endpoints, ask, asked, advance), near, name);
      }
    }
  });
});
