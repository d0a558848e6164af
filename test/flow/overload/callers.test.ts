// Callers whose checks cost a hundred times as much as those of others, around an event loop in virtual time: the others
// must be judged, and what the costly ones send beyond their part must not pass a limit unjudged.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { type Caller, Callers } from "#flow/overload/callers.ts";
import { type Outcome, type Sender, VirtualLoop } from "./loop.ts";

/** Milliseconds of judging. */
const CHEAP = 0.08;
const COSTLY = 8;
const HONEST_CALLERS = 50;
const RATE = 2_000;
/** One check in so many is costly, so all of them ask for three times what the loop can do. */
const ONE_IN = 5;

interface Scenario {
  readonly honest: (index: number) => Caller;
  readonly attacker: (index: number) => Caller;
}

const HONEST = 0;
const ATTACKER = 1;

function run({ honest, attacker }: Scenario) {
  const loop = new VirtualLoop();
  const chance = seededChance(7);
  const sender = (index: number): Sender =>
    index % ONE_IN === 0
      ? { caller: attacker(index / ONE_IN), cost: COSTLY, group: ATTACKER }
      : {
          caller: honest(1_000 + Math.floor(chance() * HONEST_CALLERS)),
          cost: CHEAP,
          group: HONEST,
        };
  const usual: Sender = { caller: honest(1_000), cost: CHEAP, group: HONEST };
  loop.run({ cost: CHEAP, rate: 100, lasts: 5_100, sender: () => usual });
  const outcomes = loop.run({ cost: 0, rate: RATE, lasts: 8_000, sender });
  return {
    honest: outcomes.get(HONEST) ?? assert.fail(),
    attacker: outcomes.get(ATTACKER) ?? assert.fail(),
  };
}

function judgedPart({ judged, shed }: Outcome): number {
  return judged / (judged + shed);
}

const ownAddress = (id: number): Caller => ({ source: id, key: id });
const gateway = (id: number): Caller => ({ source: 9, key: id });
/** Every check has another key. */
const invented = (index: number) => 1e6 + index * 7919;

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "one caller with its own address": {
    honest: ownAddress,
    attacker: () => ({ source: 1, key: 1 }),
  },
  "sixteen callers with their own addresses": {
    honest: ownAddress,
    attacker: (index) => ownAddress(index % 16),
  },
  "one address with sixteen keys": {
    honest: ownAddress,
    attacker: (index) => ({ source: 1, key: 1 + (index % 16) }),
  },
  "one address with a new key for each check": {
    honest: ownAddress,
    attacker: (index) => ({ source: 1, key: invented(index) }),
  },
  "one address without a key, where nobody has one": {
    honest: (id) => ({ source: id, key: 0 }),
    attacker: () => ({ source: 1, key: 0 }),
  },
  "one key behind the gateway of everybody": { honest: gateway, attacker: () => gateway(1) },
  "sixteen keys behind the gateway of everybody": {
    honest: gateway,
    attacker: (index) => gateway(1 + (index % 16)),
  },
  "a new key for each check behind the gateway of everybody": {
    honest: gateway,
    attacker: (index) => gateway(invented(index)),
  },
};

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  test(`${name}: the checks of others are judged`, () => {
    const { honest, attacker } = run(scenario);
    assert.ok(judgedPart(honest) >= 0.95, `${judgedPart(honest)} of the others`);
    assert.ok(attacker.shed > 0.5 * (attacker.judged + attacker.shed), `${attacker.shed} shed`);
    assert.ok(attacker.costly > 0.9 * attacker.shed, `${attacker.costly} of ${attacker.shed}`);
    assert.ok(attacker.judged > 0, "its part of the time is left to it");
  });
}

test("where all ask for as much, nobody is shed for what it costs", () => {
  const loop = new VirtualLoop();
  const sender = (index: number): Sender => ({
    caller: ownAddress(1 + (index % 40)),
    cost: 1,
    group: 0,
  });
  const { judged, shed, costly } =
    loop.run({ cost: 0, rate: 3_000, lasts: 8_000, sender }).get(0) ?? assert.fail();
  assert.ok(shed > judged, `${shed} of ${judged + shed}`);
  assert.equal(costly, 0);
});

test("a key that asks for nearly everything is costly even if nobody else asks", () => {
  const loop = new VirtualLoop();
  const sender = (): Sender => ({ caller: ownAddress(1), cost: COSTLY, group: 0 });
  const { shed, costly } =
    loop.run({ cost: 0, rate: 400, lasts: 8_000, sender }).get(0) ?? assert.fail();
  assert.ok(costly > 0.95 * shed, `${costly} of ${shed}`);
});

test("a gateway without keys that sends nearly everything alone is shed by failure modes", () => {
  const loop = new VirtualLoop();
  const sender = (): Sender => ({ caller: { source: 1, key: 0 }, cost: COSTLY, group: 0 });
  const { shed, costly } =
    loop.run({ cost: 0, rate: 400, lasts: 8_000, sender }).get(0) ?? assert.fail();
  assert.ok(shed > 0);
  assert.equal(costly, 0);
});

test("what is remembered of callers is bounded, and those who do not come again are forgotten", () => {
  const callers = new Callers();
  for (let round = 0; round < 20; round++) {
    for (let at = 1; at <= 5_000; at++) {
      callers.arrived({ source: at, key: at });
      callers.judged(1);
      callers.arrived({ source: 7, key: 1e6 * round + at });
      callers.judged(1);
    }
    callers.renew(0.5);
    assert.ok(callers.known <= 2 * 1_024, `${callers.known}`);
  }
  for (let round = 0; round < 400; round++) callers.renew(1);
  assert.equal(callers.known, 0);
});

test("max-min fairness: who asks for less than the level is never cut, and the others are cut to it", () => {
  const demands = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(demands, fc.integer({ min: 5, max: 95 }), (all, percent) => {
      const callers = new Callers();
      const ask = () => {
        for (const [at, checks] of all.entries())
          for (let check = 0; check < checks; check++) {
            callers.arrived({ source: at + 1, key: 0 });
            callers.judged(1);
          }
      };
      ask();
      callers.renew(percent / 100);
      const left = all.map((checks, at) => {
        callers.arrived({ source: at + 1, key: 0 });
        return checks * (1 - callers.share);
      });
      const level = Math.max(...left);
      for (const [at, checks] of all.entries()) {
        assert.ok(Math.abs((left[at] ?? 0) - Math.min(checks, level)) < 1e-6);
      }
      const total = all.reduce((sum, checks) => sum + checks, 0);
      const judged = left.reduce((sum, part) => sum + part, 0);
      assert.ok(Math.abs(judged - (percent / 100) * total) < 1e-6 * total);
    }),
  );
});
