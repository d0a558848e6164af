import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceLookup } from "#api/service-lookup.ts";
import { agentOf, callOf, embedded, endpointsOf } from "../../kit/api/agent.ts";

const KNOWN: Readonly<Record<string, readonly string[]>> = {
  "10.0.0.1": ["front"],
  "10.0.0.2": ["back", "back.old"],
  "2001:db8::1": ["six"],
};
const lookup: ServiceLookup = { byAddress: (address) => KNOWN[address] ?? [] };

function counting() {
  const agent = agentOf([]);
  const found: boolean[] = [];
  const observer = { ...agent.observer, lookedUp: (known: boolean) => void found.push(known) };
  return { found, endpoints: endpointsOf({ ...agent.flowController, observer }, lookup) };
}

const socketOf = (address: string) => ({
  address: {
    address: {
      case: "socketAddress" as const,
      value: { address, portSpecifier: { case: "portValue" as const, value: 80 } },
    },
  },
});

describe("services of a flow", () => {
  it("are the proxy's own, or else the destination's; every look-up counts", async () => {
    const { endpoints, found } = counting();
    const attributes = { source: socketOf("::ffff:10.0.0.1"), destination: socketOf("10.0.0.2") };
    const ask = async (peer: string) => {
      const call = callOf({ "control-point": "here" }, { peer });
      return embedded((await endpoints.proxy({ attributes }, call)).dynamicMetadata);
    };
    const own = await ask("2001:db8:0::1");
    assert.deepEqual(own.services, ["six"]);
    assert.equal(own.telemetryFlowLabels["aperture.source_fqdns"], "front");
    assert.equal(own.telemetryFlowLabels["aperture.destination_fqdns"], "back,back.old");
    assert.deepEqual((await ask("10.9.9.9")).services, ["back", "back.old"]);
    assert.deepEqual((await ask("")).services, ["back", "back.old"]);
    assert.deepEqual(found, [true, true, true, true, true, false, true, true, false]);
  });

  it("are the destination's for described requests, and the peer's for features", async () => {
    const { endpoints, found } = counting();
    const call = callOf({}, { peer: "10.0.0.1" });
    const described = await endpoints.checkHttpJson(
      { control_point: "here", source: { address: "x" }, destination: { address: "::ffff:a00:2" } },
      call,
    );
    assert.deepEqual(described.check_response.services, ["back", "back.old"]);
    const labels = described.check_response.telemetry_flow_labels;
    assert.equal(labels["aperture.source_fqdns"], "UNKNOWN");
    assert.deepEqual(found, [], "described addresses are not counted");
    assert.deepEqual((await endpoints.checkJson({ control_point: "here" }, call)).services, [
      "front",
    ]);
    assert.deepEqual(found, [true]);
  });

  it("are those of the loopback address for a peer on a Unix socket, which has none", async () => {
    const own: ServiceLookup = { byAddress: (at) => (at === "127.0.0.1" ? ["own"] : []) };
    const endpoints = endpointsOf(agentOf([]).flowController, own);
    const attributes = { destination: socketOf("10.0.0.2") };
    const call = callOf({ "control-point": "here" }, { peer: "" });
    const proxied = embedded((await endpoints.proxy({ attributes }, call)).dynamicMetadata);
    assert.deepEqual(proxied.services, ["own"]);
    const asked = await endpoints.checkJson({ control_point: "here" }, call);
    assert.deepEqual(asked.services, ["own"]);
    // An address that a request does not name is nobody's.
    const described = await endpoints.checkHttpJson({ control_point: "here" }, call);
    assert.deepEqual(described.check_response.services, []);
  });

  it("are empty, and UNKNOWN in the labels, when no service is known", async () => {
    const { check_response: check } = await endpointsOf(agentOf([]).flowController).checkHttpJson({
      control_point: "here",
      destination: { address: "10.0.0.2" },
    });
    assert.deepEqual(check.services, []);
    assert.equal(check.telemetry_flow_labels["aperture.destination_fqdns"], "UNKNOWN");
  });
});
