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
import { AUTHORIZATION_SERVICE, CHECK_HTTP_SERVICE, CHECK_SERVICE } from "#api/doors.ts";
import { forwardTo, gatewayRoutes } from "#api/gateway.ts";
import { seededChance } from "#base/chance.ts";
import type { Call } from "#serve/handler.ts";
import { GrpcClient } from "#wire/grpc-client.ts";
import {
  CheckRequestSchema,
  CheckResponseSchema,
  FlowEndRequestSchema,
  FlowEndResponseSchema,
} from "../../src/wire/gen/aperture/flowcontrol/check/v1/check_pb.ts";
import {
  CheckHTTPRequestSchema,
  CheckHTTPResponseSchema,
} from "../../src/wire/gen/aperture/flowcontrol/checkhttp/v1/checkhttp_pb.ts";
import {
  CheckRequestSchema as AuthRequestSchema,
  CheckResponseSchema as AuthResponseSchema,
} from "../../src/wire/gen/envoy/service/auth/v3/external_auth_pb.ts";
import { grpcClient } from "../kit/grpc-client.ts";
import { http1 } from "../kit/http-client.ts";
import { realClock, testPort } from "../kit/port.ts";
import { agentOf, doorsOf } from "./agent.ts";
import {
  type Ask,
  DOORS,
  RULES,
  type Seen,
  type Step,
  step,
  type Tongues,
  walk,
} from "./corpus.ts";

const { proxy, rawProxy, ...WITH_RAMP } = DOORS;
const unramped = (steps: readonly Step[]) => steps.map((each) => ({ ...each, ramp: false }));
const isSeen = (one: Seen | boolean): one is Seen => typeof one !== "boolean";

describe("all doors", () => {
  it("decide alike, request for request, and leave the same state", async () => {
    const corpus = fc.array(step, { minLength: 5, maxLength: 25 });
    const met = new Set<string>();
    const inProcess = async (ask: Ask, steps: readonly Step[]) => {
      const { mind, clock, observer } = agentOf(RULES);
      const seen = await walk(doorsOf(mind), ask, steps, clock.advance);
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
        await compare(Object.values(DOORS), unramped(steps));
        await compare(Object.values(WITH_RAMP), steps);
      }),
      { numRuns: 40, seed: 7 },
    );
    // Every limiter let somebody pass and turned somebody away, and every reason was given.
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

/** The tongues of an agent behind real ports: JSON in process, or through a port that forwards. */
async function overSockets(test: TestContext, forwarded: boolean) {
  const agent = agentOf(RULES);
  const { services, routes } = doorsOf(agent.mind);
  const judging = await testPort(test, { services, routes });
  const grpc = grpcClient(test, judging.address);
  let speaksJson = judging;
  if (forwarded) {
    const client = new GrpcClient({ address: judging.address });
    test.after(() => client.close());
    const gateway = gatewayRoutes(forwardTo(client, realClock), seededChance(1));
    speaksJson = await testPort(test, { routes: gateway });
  }
  const http = http1(test, `http://${speaksJson.address}`);
  const unary =
    <In extends DescMessage, Out extends DescMessage>(path: string, input: In, output: Out) =>
    async (init: MessageInitShape<In>, call?: Call) => {
      const metadata = { "control-point": call?.header("control-point") ?? "" };
      const options = metadata["control-point"] === "" ? {} : { metadata };
      const reply = await grpc.unary(path, toBinary(input, create(input, init)), options);
      assert.ok(reply.message !== undefined, reply.details);
      assert.match(String(reply.metadata["x-sluice-decision-id"] ?? path), /^.*-.*$|FlowEnd$/);
      return fromBinary(output, reply.message);
    };
  const json = (name: string) => async (body: unknown) => {
    const reply = await http({
      ...{ method: "POST", path: `/v1/flowcontrol/${name}`, body: JSON.stringify(body) },
      headers: { "content-type": "application/json" },
    });
    assert.equal(reply.status, 200, reply.body);
    return JSON.parse(reply.body);
  };
  const tongues: Tongues = {
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
  return { tongues, advance: agent.clock.advance };
}

describe("all doors through real ports", () => {
  const steps = fc.sample(step, { numRuns: 25, seed: 11 });

  it("decide as in process, the forwarding one included", async (test) => {
    for (const [name, ask] of Object.entries(DOORS)) {
      const asked = ask === proxy || ask === rawProxy ? unramped(steps) : steps;
      const { mind, clock } = agentOf(RULES);
      const near = await walk(doorsOf(mind), ask, asked, clock.advance);
      for (const forwarded of name.endsWith("Json") ? [false, true] : [false]) {
        const { tongues, advance } = await overSockets(test, forwarded);
        assert.deepEqual(await walk(tongues, ask, asked, advance), near, name);
      }
    }
  });
});
