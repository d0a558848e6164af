// The part of the input that error messages repeat: nothing for checks; for policies the offending value, shortened.

import assert from "node:assert/strict";
import { it } from "node:test";
import { standalone } from "../kit/sluice/standalone.ts";

const SECRET = "s3cret";

async function errorOf(address: string, path: string, body: string) {
  const headers = { "content-type": "application/json" };
  const reply = await fetch(`http://${address}${path}`, { method: "POST", headers, body });
  return { status: reply.status, text: await reply.text() };
}

it("errors of checks repeat nothing of the caller's input", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const bodies: Readonly<Record<string, readonly string[]>> = {
    checkhttp: [
      SECRET,
      `"${SECRET}"`,
      `{"control_point":"${SECRET}",}`,
      `{"control_point":["${SECRET}"]}`,
      `{"control_point":"x","request":"${SECRET}"}`,
      `{"control_point":"x","request":{"headers":{"${SECRET}":{"${SECRET}":1}}}}`,
      `{"control_point":"x","request":{"size":["${SECRET}"]}}`,
      `{"control_point":" ${SECRET}"}`,
      `{"control_point":"x","source":{"address":"${SECRET}","port":99999}}`,
    ],
    check: [
      `{"control_point":"x","labels":{"${SECRET}":["${SECRET}"]}}`,
      `{"control_point":"","services":["${SECRET}"]}`,
      `{"control_point":"x","ramp_mode":"${SECRET}"}`,
    ],
    flowend: [
      `{"inflight_requests":[{"tokens":"${SECRET}"}]}`,
      `{"inflight_requests":"${SECRET}"}`,
    ],
  };
  for (const [route, all] of Object.entries(bodies)) {
    for (const body of all) {
      const { status, text } = await errorOf(address, `/v1/flowcontrol/${route}`, body);
      assert.equal(status, 400, `${body}: ${text}`);
      assert.ok(!text.includes(SECRET), text);
    }
  }
});

it("errors about policies show the offending value, shortened", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const upsert = (interval: string) => {
    const policy = { circuit: { evaluation_interval: interval, components: [] } };
    return errorOf(
      address,
      "/v1/policies/p",
      JSON.stringify({ policy_string: JSON.stringify(policy) }),
    );
  };
  const short = await upsert("-1s");
  assert.equal(short.status, 400, short.text);
  assert.match(JSON.parse(short.text).message, /got "-1s"/);
  const long = await upsert("9".repeat(5_000));
  assert.equal(long.status, 400);
  assert.match(JSON.parse(long.text).message, /got "9+…/);
  assert.ok(long.text.length < 1_500, String(long.text.length));
});
