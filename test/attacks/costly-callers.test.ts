// Callers whose checks cost a hundred times as much as those of others, 20 at a time on each of 20 connections, through
// the port of a whole Sluice in another process: they must neither keep others from being judged nor get past a limit
// that fails open. All checks come from one address, as through one Envoy; the sources that they describe differ.

import assert from "node:assert/strict";
import { type ClientHttp2Session, connect } from "node:http2";
import { type TestContext, test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const CONNECTIONS = 20;
const IN_FLIGHT = 20;
/** What each key may do in all. */
const CAPACITY = 20;
const HONEST_USERS = 20;
/** Between two checks of one user, ms. */
const PAUSE_MS = 100;
/** The attack ends after so many checks were shed, */
const ENOUGH = 3_000;
/** or after so many checks, whatever happens. */
const MOST_CHECKS = 60_000;

/** Takes some 5 ms for 8 kB of the letters a and b in no order, and next to nothing for other text. */
const REGEX = "a[ab]{16}[0-9]";
/** A limiter whose selector tries the expression on each body, and applies to all. */
const POLICY = `circuit:
  evaluation_interval: 1s
  components:
    - flow_control:
        rate_limiter:
          selectors:
            - control_point: here
              label_matcher:
                expression:
                  any: {of: [{label_matches: {label: text, regex: '${REGEX}'}}, {label_exists: text}]}
          in_ports:
            bucket_capacity: {constant_signal: {value: ${CAPACITY}}}
            fill_amount: {constant_signal: {value: 1}}
          parameters:
            limit_by_label_key: http.request.header.user
            interval: 86400s
            on_failure: open
resources:
  flow_control:
    classifiers:
      - selectors: [{control_point: here}]
        rules: {text: {extractor: {from: request.http.body}}}
`;

const BODY_BYTES = 8_000;
const LETTERS = (() => {
  const chance = seededChance(5);
  return Array.from({ length: 1_000_000 }, () => (chance() < 0.5 ? "a" : "b")).join("");
})();

interface Sent {
  readonly source: string;
  readonly user: string;
  readonly body: string;
}

interface Tally {
  accepted: number;
  judged: number;
  shed: number;
}

function check(session: ClientHttp2Session, { source, user, body }: Sent, tally: Tally) {
  const message = JSON.stringify({
    control_point: "here",
    source: { address: source, port: 4000, protocol: "TCP" },
    request: { method: "POST", path: "/", headers: { user }, body },
  });
  return new Promise<void>((resolve, reject) => {
    const stream = session.request({
      ":method": "POST",
      ":path": "/v1/flowcontrol/checkhttp",
      "content-type": "application/json",
    });
    let text = "";
    stream.setEncoding("utf8");
    stream.on("response", (headers) => {
      if (headers["x-sluice-shed"] === undefined) tally.judged++;
      else tally.shed++;
    });
    stream.on("data", (part: string) => {
      text += part;
    });
    stream.on("error", reject);
    stream.on("end", () => {
      if (JSON.parse(text).status === "OK" || text.includes("DECISION_TYPE_ACCEPTED"))
        tally.accepted++;
      resolve();
    });
    stream.end(message);
  });
}

function newTally(): Tally {
  return { accepted: 0, judged: 0, shed: 0 };
}

function open(t: TestContext, address: string): ClientHttp2Session {
  const session = connect(`http://${address}`);
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  return session;
}

/** Sends checks of 8 kB over all connections until the returned function is called, which tells what became of them. */
function attack(t: TestContext, address: string, callers: number) {
  const tally = newTally();
  const stop = new AbortController();
  let sent = 0;
  const lane = async (session: ClientHttp2Session) => {
    while (!stop.signal.aborted && sent < MOST_CHECKS) {
      const index = sent++;
      const caller = index % callers;
      const at = (index * BODY_BYTES) % (LETTERS.length - BODY_BYTES);
      const body = LETTERS.slice(at, at + BODY_BYTES);
      await check(session, { source: `10.1.0.${caller}`, user: `greedy-${caller}`, body }, tally);
    }
  };
  const lanes = Array.from({ length: CONNECTIONS }, () => open(t, address)).flatMap((session) =>
    Array.from({ length: IN_FLIGHT }, () => lane(session)),
  );
  return {
    over: () => tally.shed >= ENOUGH || sent >= MOST_CHECKS,
    async end() {
      stop.abort();
      await Promise.all(lanes);
      return tally;
    },
  };
}

/** Sends a few checks at a time until `done`. */
async function honestUser(
  session: ClientHttp2Session,
  user: number,
  tally: Tally,
  done: () => boolean,
) {
  for (let at = 0; !done(); at++) {
    const body = `order ${at} of ${user}`;
    await check(session, { source: `10.2.0.${user}`, user: `user-${user}`, body }, tally);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

for (const callers of [1, 16]) {
  test(`others are judged, and the limit holds, while ${callers} send costly checks`, async (t) => {
    const sluice = await standaloneProcess(t, { policies: { "costly.yaml": POLICY } });
    const { address } = sluice;
    await until("the policy is in force", async () => {
      const decisions = await counted(address, "sluice_circuit_decisions_total", "policy_name");
      return (decisions["costly"] ?? 0) > 0;
    });
    const session = open(t, address);
    let greedy: ReturnType<typeof attack> | undefined;
    const over = () => greedy?.over() ?? false;
    const honest = newTally();
    const users = Array.from({ length: HONEST_USERS }, (_, user) =>
      honestUser(session, user, honest, over),
    );
    await until("all users have been answered", () => honest.judged >= HONEST_USERS);
    greedy = attack(t, address, callers);
    await Promise.all(users);
    const { accepted, judged, shed } = await greedy.end();
    t.diagnostic(JSON.stringify({ honest, greedy: { accepted, judged, shed } }));
    const all = honest.judged + honest.shed;
    assert.ok(honest.judged >= 0.95 * all, `${honest.judged} of ${all} were judged`);
    // Those that are shed before the agent can tell the callers apart may pass.
    assert.ok(accepted <= 1.2 * CAPACITY * callers, `${accepted} of ${judged + shed} passed`);
  });
}
