// Controllers that end or freeze while others wait to lead.

import assert from "node:assert/strict";
import { listening, standsBy } from "../../../kit/servers/sluice.ts";
import { until } from "../../../kit/until.ts";
import type { Fleet } from "../fleet.ts";
import type { Row } from "../row.ts";

const NOTHING = { rate: 0, filling: 0, slots: 0 } as const;
const FLEET = { engine: "peers", agents: 2, controllers: 3 } as const;
const EXPECTED =
  "Nobody notices: agents keep rules and numbers. Another controller leads within the lease and a tick, and edits arrive.";

type Controller = Fleet["controllers"][number];

const led = (controller: Controller) => controller.printed().includes("this controller leads");

function leader({ controllers }: Fleet): Controller {
  const leaders = controllers.filter(led);
  assert.equal(leaders.length, 1, "one of them leads");
  return leaders[0] ?? assert.fail();
}

/** Waits until one of the controllers leads that did not before. */
async function takesOver(others: readonly Controller[]): Promise<void> {
  await until("another controller leads", () => others.some(led));
}

export const CONTROLLERS: readonly Row[] = [
  {
    fault: "the leading controller is killed",
    family: "controllers",
    fleet: FLEET,
    bounds: NOTHING,
    expected: EXPECTED,
    checks: 100,
    async happens(fleet, load) {
      const lost = leader(fleet);
      await fleet.kill(lost);
      await Promise.all([
        takesOver(fleet.controllers.filter((each) => each !== lost)),
        load.more(30),
      ]);
      await fleet.edit();
    },
  },
  {
    fault: "the leading controller is frozen, is replaced, and goes on as if it led",
    family: "controllers",
    fleet: FLEET,
    bounds: NOTHING,
    expected: `${EXPECTED} The one that was frozen writes nothing and stands by.`,
    checks: 100,
    async happens(fleet, load) {
      const frozen = leader(fleet);
      await frozen.freeze();
      await takesOver(fleet.controllers.filter((each) => each !== frozen));
      await fleet.edit();
      const stored = () => fleet.etcd.ctl("get", "--prefix", "aperture/config/");
      const before = await stored();
      frozen.kill("SIGCONT");
      await standsBy(frozen);
      assert.match(frozen.printed(), /this controller no longer leads/);
      assert.equal(await stored(), before);
      await load.more(30);
      await fleet.edit();
    },
  },
  {
    fault: "two of three controllers are killed at once, the leader among them",
    family: "controllers",
    fleet: FLEET,
    bounds: NOTHING,
    expected: EXPECTED,
    checks: 100,
    async happens(fleet, load) {
      const lost = leader(fleet);
      const [other, third] = fleet.controllers.filter((each) => each !== lost);
      await Promise.all([fleet.kill(lost), fleet.kill(other)]);
      await Promise.all([takesOver(third === undefined ? [] : [third]), load.more(30)]);
      await fleet.edit();
    },
  },
  {
    fault: "every controller is killed, and one starts later",
    family: "controllers",
    fleet: { ...FLEET, controllers: 2 },
    bounds: NOTHING,
    expected:
      "Nobody notices: rules and numbers outlive controllers. Edits wait for one that leads.",
    checks: 100,
    async happens(fleet, load) {
      await Promise.all(fleet.controllers.map((each) => fleet.kill(each)));
      const edited = fleet.write();
      await load.more(100);
      await listening(fleet.launch("controller"));
      await edited();
    },
  },
];
