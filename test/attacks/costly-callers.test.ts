// One caller, or sixteen, whose checks cost a hundred times as much as those of others and who send as many as they can: the
// others are judged all the same, and the limit that the attackers would like to dodge refuses them, although it fails open.

import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import { type TestContext, test } from "node:test";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const ITEMS = 2_000;
const RULES = 30;

/** A limit for each user that honest ones never reach, and a classifier that reads many members of the body. */
const policy = (onFailure: "open" | "closed") => `circuit:
  evaluation_interval: 1s
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: here }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 1000000 } }
            fill_amount: { constant_signal: { value: 1000000 } }
          parameters: { interval: 1s, limit_by_label_key: http.request.header.user, on_failure: ${onFailure} }
resources:
  flow_control:
    classifiers:
      - selectors: [{ control_point: here }]
        rules:${Array.from(
          { length: RULES },
          (_, at) => `
          label${at}: { extractor: { json: { from: request.http.body, pointer: /items/${ITEMS - 1 - at}/id } } }`,
        ).join("")}
`;

/** A document of some 25 kB, whose classification takes milliseconds, and one that takes none. */
const COSTLY_BODY = JSON.stringify({ items: Array.from({ length: ITEMS }, (_, id) => ({ id })) });
const CHEAP_BODY = "{}";

const HONEST_USERS = 50;
const CONNECTIONS = 16;
const IN_FLIGHT = 4 * CONNECTIONS;
/** Honest checks whose answers are counted once the agent sheds, and the time between two of them. */
const COUNTED = 400;
const EVERY_MS = 10;
/** Checks that are shed because of their callers' cost before the counting begins: the agent has learned who they are. */
const LEARNED = 100;

interface Caller {
  readonly address: string;
  readonly user: string;
}

type Answer = "judged" | "shed" | "shed and accepted";

function check(session: ClientHttp2Session, { address, user }: Caller, body: string) {
  const source = { address, protocol: "TCP", port: 4_000 };
  const request = { method: "POST", path: "/", headers: { user }, body };
  const stream = session.request({
    ":method": "POST",
    ":path": "/v1/flowcontrol/checkhttp",
    "content-type": "application/json",
  });
  return new Promise<Answer>((resolve, reject) => {
    let cause: unknown;
    let text = "";
    stream.on("response", (headers) => {
      cause = headers["x-sluice-shed"];
    });
    stream.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
    stream.on("error", reject);
    stream.on("end", () => {
      const accepted = text.includes("DECISION_TYPE_ACCEPTED");
      resolve(cause === undefined ? "judged" : accepted ? "shed and accepted" : "shed");
    });
    stream.end(JSON.stringify({ control_point: "here", source, request }));
  });
}

function sessionTo(t: TestContext, address: string): ClientHttp2Session {
  const session = connect(`http://${address}`);
  // The agent may be gone before the connection.
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  return session;
}

/** Keeps so many costly checks in flight until it is stopped; returns the answers. */
function attack(sessions: readonly ClientHttp2Session[], callers: readonly Caller[]) {
  const answers: Answer[] = [];
  let stopped = false;
  const loop = async (at: number) => {
    const caller = callers[at % callers.length] ?? assert.fail();
    const session = sessions[at % sessions.length] ?? assert.fail();
    while (!stopped) answers.push(await check(session, caller, COSTLY_BODY));
  };
  const all = Promise.all(Array.from({ length: IN_FLIGHT }, (_, at) => loop(at)));
  return async () => {
    stopped = true;
    await all;
    return answers;
  };
}

function inForce(agent: string): Promise<void> {
  return until("the policy is in force", async () => {
    const decisions = await counted(agent, "sluice_circuit_decisions_total", "policy_name");
    return (decisions["limit"] ?? 0) > 0;
  });
}

/** Resolves when checks are shed because of what their callers cost. */
function learned(agent: string): Promise<void> {
  return until("the agent has learned whose checks are costly", async () => {
    const shed = await counted(agent, "sluice_shed_checks_total", "cause");
    return (shed["cost"] ?? 0) > LEARNED;
  });
}

const address = (id: number) => `10.0.${id}.1`;
const SCENARIOS: Readonly<
  Record<string, { readonly attackers: readonly Caller[]; readonly honest: (id: number) => Caller }>
> = {
  "one caller": {
    attackers: [{ address: address(200), user: "attacker" }],
    honest: (id) => ({ address: address(id), user: `user-${id}` }),
  },
  "sixteen callers": {
    attackers: Array.from({ length: 16 }, (_, id) => ({
      address: address(200 + id),
      user: `attacker-${id}`,
    })),
    honest: (id) => ({ address: address(id), user: `user-${id}` }),
  },
  "sixteen users behind the gateway of everybody": {
    attackers: Array.from({ length: 16 }, (_, id) => ({
      address: address(1),
      user: `attacker-${id}`,
    })),
    honest: (id) => ({ address: address(1), user: `user-${id}` }),
  },
};

for (const [name, { attackers, honest }] of Object.entries(SCENARIOS)) {
  test(`${name} with costly checks: others are judged, and the limit refuses the excess`, async (t) => {
    const { address: agent } = await standaloneProcess(t, {
      policies: { "limit.yaml": policy("open") },
      // A smaller delay than the default is reached sooner where the attack gets little of the processor.
      env: { SVC_AGENT_FLOW_CONTROL_OVERLOAD_MAX_DELAY: "20ms" },
    });
    await inForce(agent);
    const session = sessionTo(t, agent);
    let asked = 0;
    const answers: Promise<Answer>[] = [];
    const ask = () => answers.push(check(session, honest(asked++ % HONEST_USERS), CHEAP_BODY));
    const honestTraffic = setInterval(ask, EVERY_MS);
    t.after(() => clearInterval(honestTraffic));
    await until("honest users are known", () => answers.length > 4 * HONEST_USERS);

    const stop = attack(
      Array.from({ length: CONNECTIONS }, () => sessionTo(t, agent)),
      attackers,
    );
    await learned(agent);
    const before = answers.length;
    await until("enough answers to count", () => answers.length >= before + COUNTED);
    clearInterval(honestTraffic);
    const counting = (await Promise.all(answers)).slice(before);
    const judged = counting.filter((answer) => answer === "judged").length;
    const attacked = await stop();
    const count = (wanted: Answer) => attacked.filter((answer) => answer === wanted).length;
    t.diagnostic(
      `honest: ${judged} of ${counting.length} judged; attackers: ${attacked.length} checks, ${count("judged")} judged, ${count("shed")} refused unjudged, ${count("shed and accepted")} accepted unjudged`,
    );
    assert.ok(judged >= 0.95 * counting.length, `${judged} of ${counting.length}`);
    assert.ok(count("judged") > 0, "their part of the time is left to them");
    assert.ok(count("shed and accepted") <= 0.05 * count("shed"), "costly checks dodge no limit");
  });
}

test("sixteen users behind one Envoy with costly requests: the requests of others pass", async (t) => {
  const { address: agent } = await standaloneProcess(t, {
    policies: {
      "limit.yaml": policy("closed").replaceAll("control_point: here", "control_point: ingress"),
    },
    env: { SVC_AGENT_FLOW_CONTROL_OVERLOAD_MAX_DELAY: "20ms" },
  });
  await inForce(agent);
  const { port } = await startEnvoy(t, {
    agent,
    service: await startService(t),
    edit(bootstrap) {
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "10s");
      bootstrap.set([...AT.extAuthz, "with_request_body"], { max_request_bytes: 1_000_000 });
    },
  });
  const connections = new Agent({ keepAlive: true });
  t.after(() => connections.destroy());
  const status = (user: string, body: string) =>
    new Promise<number>((resolve, reject) => {
      const sent = request(
        { agent: connections, port, method: "POST", path: "/", headers: { user } },
        (response) => response.resume().on("end", () => resolve(response.statusCode ?? 0)),
      );
      sent.on("error", reject).end(body);
    });

  let asked = 0;
  const statuses: Promise<number>[] = [];
  const honestTraffic = setInterval(
    () => statuses.push(status(`user-${asked++ % HONEST_USERS}`, CHEAP_BODY)),
    EVERY_MS,
  );
  t.after(() => clearInterval(honestTraffic));
  await until("honest users are known", () => statuses.length > 4 * HONEST_USERS);
  let stopped = false;
  const loop = async (user: string) => {
    while (!stopped) await status(user, COSTLY_BODY);
  };
  const attacks = Promise.all(
    Array.from({ length: IN_FLIGHT }, (_, at) => loop(`attacker-${at % 16}`)),
  );
  await learned(agent);
  const before = statuses.length;
  await until("enough answers to count", () => statuses.length >= before + COUNTED);
  clearInterval(honestTraffic);
  const counting = (await Promise.all(statuses)).slice(before);
  stopped = true;
  await attacks;
  const passed = counting.filter((code) => code === 200).length;
  t.diagnostic(`${passed} of ${counting.length} honest requests passed`);
  assert.ok(passed >= 0.95 * counting.length, `${passed} of ${counting.length}`);
});
