// Concurrency slots in a real Redis while that Redis fails: what each failure mode answers, and that no slot stays taken
// when Redis is back.

import assert from "node:assert/strict";
import { request } from "node:http";
import { type TestContext, test } from "node:test";
import { slotsHeld } from "../../kit/attack/slots.ts";
import { startRedis } from "../../kit/servers/redis.ts";
import { begin, endFlow, type HeldSlot } from "../../kit/sluice/check.ts";
import { counted } from "../../kit/sluice/scrape.ts";
import { type StandaloneProcess, standaloneProcess } from "../../kit/sluice/standalone.ts";
import { until } from "../../kit/until.ts";

const MODES = ["open", "closed", "local", "last_known"] as const;
type Mode = (typeof MODES)[number];

const LIMIT = 2;

/** A limiter of each failure mode at a control point of its own; no time frees a slot. */
const POLICY = `circuit:
  components:${MODES.map(
    (mode) => `
    - flow_control:
        concurrency_limiter:
          selectors: [{ control_point: ${mode} }]
          in_ports: { max_concurrency: { constant_signal: { value: ${LIMIT} } } }
          parameters: { max_inflight_duration: 3600s, on_failure: ${mode} }`,
  ).join("")}
`;

function agent(
  t: TestContext,
  url: string,
  env: Readonly<Record<string, string>> = {},
): Promise<StandaloneProcess> {
  return standaloneProcess(t, {
    policies: { "limits.yaml": POLICY },
    env: {
      SVC_AGENT_COUNTERS_ENGINE: "redis",
      SVC_AGENT_COUNTERS_REDIS_URL: url,
      SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "2s",
      SVC_AGENT_COUNTERS_REDIS_PROBE_INTERVAL: "100ms",
      ...env,
    },
  });
}

/** The flows of one more than the limit that pass. */
async function admitted({ address }: StandaloneProcess, mode: Mode) {
  const passed: (readonly HeldSlot[])[] = [];
  for (let n = 0; n <= LIMIT; n++) {
    const { accepted, slots } = await begin(address, mode);
    if (accepted) passed.push(slots);
  }
  return passed;
}

const transitions = async ({ address }: StandaloneProcess, state: "away" | "back") =>
  (await counted(address, "sluice_counter_engine_transitions_total", "state"))[state] ?? 0;

/** Waits until Redis is asked again. */
const isBack = (own: StandaloneProcess, times: number) =>
  until("Redis is asked again", async () => (await transitions(own, "back")) === times);

test("each failure mode answers while Redis is frozen, and what ends meanwhile is free when it is back", async (t) => {
  const redis = await startRedis(t);
  const own = await agent(t, redis.url);
  const other = await agent(t, redis.url);
  const early = new Map<Mode, readonly HeldSlot[]>();
  for (const mode of MODES) {
    const passed = await admitted(own, mode);
    assert.equal(passed.length, LIMIT);
    early.set(mode, passed.flat());
  }
  await redis.freeze();

  assert.equal((await begin(own.address, "closed")).accepted, false);
  assert.equal(await transitions(own, "away"), 1);
  assert.deepEqual(
    (await admitted(own, "open")).map((slots) => slots.length),
    Array(LIMIT + 1).fill(0),
    "who passes uncounted has nothing to end",
  );
  for (const mode of ["local", "last_known"] as const) {
    const alone = await admitted(own, mode);
    assert.equal(alone.length, LIMIT, mode);
    for (const slots of alone) {
      assert.match(slots[0]?.request_id ?? "", /^local\//);
      assert.deepEqual(await endFlow(other.address, mode, slots), [false], "another agent's own");
      assert.deepEqual(await endFlow(own.address, mode, slots), [true], mode);
    }
    assert.equal((await admitted(own, mode)).length, LIMIT, mode);
  }
  for (const mode of MODES) {
    const slots = early.get(mode) ?? [];
    assert.deepEqual(await endFlow(own.address, mode, slots), Array(LIMIT).fill(false), mode);
  }
  const kept = await counted(own.address, "sluice_counter_slot_ends_total", "result");
  // One more: the slot of the flow that waited in vain.
  assert.deepEqual(kept, { kept: LIMIT * MODES.length + 1, dropped: 0 });

  redis.thaw();
  await isBack(own, 1);
  for (const mode of MODES) {
    await until(`all slots of ${mode} are free`, async () => {
      return (await slotsHeld(own.address, mode)) === 0;
    });
    const passed = await admitted(own, mode);
    assert.equal(passed.length, LIMIT);
    assert.deepEqual(await endFlow(own.address, mode, passed.flat()), Array(LIMIT).fill(true));
  }
});

test("Redis is killed: it has forgotten all slots, and goes on counting", async (t) => {
  const redis = await startRedis(t);
  const own = await agent(t, redis.url);
  const early = (await admitted(own, "closed")).flat();
  await redis.kill();
  assert.deepEqual(await admitted(own, "closed"), []);
  await redis.restart();
  await isBack(own, 1);
  assert.equal((await admitted(own, "closed")).length, LIMIT);
  assert.deepEqual(await endFlow(own.address, "closed", early), Array(LIMIT).fill(false));
});

test("callers leave while Redis is frozen: what it grants afterwards is free again", async (t) => {
  const redis = await startRedis(t);
  // Nothing trips the breaker: the replies come, but nobody waits for them any more.
  const own = await agent(t, redis.url, { SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "1h" });
  const [host = "", port = ""] = own.address.split(":");
  const abandoned = async () =>
    (await counted(own.address, "sluice_anomalies_total", "kind"))["abandoned"] ?? 0;
  await redis.freeze();
  for (let n = 0; n < LIMIT; n++) {
    const asking = request({
      host,
      port,
      method: "POST",
      path: "/v1/flowcontrol/checkhttp",
      agent: false,
      headers: { "content-type": "application/json" },
    });
    asking.on("error", () => undefined);
    asking.end(JSON.stringify({ control_point: "closed", expect_end: true, request: {} }));
    await new Promise((resolve) => asking.once("finish", resolve));
    asking.destroy();
  }
  await until("the agent knows that they left", async () => (await abandoned()) === LIMIT);
  redis.thaw();
  await until("all slots are free", async () => (await slotsHeld(own.address, "closed")) === 0);
  assert.equal((await admitted(own, "closed")).length, LIMIT);
});

test("a user of an access control list needs only what the documents say, and is refused at start without", async (t) => {
  const rights =
    "~sluice:* -@all +hello +auth +ping +info +eval +evalsha +get +set +time +del +pexpire " +
    "+zadd +zcard +zcount +zrangebyscore +zrem +zremrangebyscore +zscore";
  const redis = await startRedis(t, {
    settings: [
      `user counters on >secret ${rights}`,
      `user buckets on >secret ${rights.replace(" +zcount", "")}`,
    ],
  });
  const as = (name: string) => ({
    SVC_AGENT_COUNTERS_REDIS_USERNAME: name,
    SVC_AGENT_COUNTERS_REDIS_PASSWORD: "secret",
  });
  const own = await agent(t, redis.url, as("counters"));
  const passed = (await admitted(own, "closed")).flat();
  assert.equal(passed.length, LIMIT);
  assert.deepEqual(await endFlow(own.address, "closed", passed), Array(LIMIT).fill(true));
  await assert.rejects(
    agent(t, redis.url, as("buckets")),
    /counters\.redis: wanted a server that accepts/,
  );
});
