// Callers whose checks cost a hundred times as much as those of others, around an event loop in virtual time: the others
// must be judged, and what the dear ones send beyond their part must not pass a limit unjudged.

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { type Caller, Callers } from "#flow/overload/callers.ts";
import { type Outcome, REST, type Sender, VirtualLoop } from "./loop.ts";

/** Milliseconds of judging. */
const CHEAP = 0.08;
const DEAR = 8;
const HONEST_CALLERS = 50;
const RATE = 2_000;
/** One check in so many is dear, so all of them ask for three times what the loop can do. */
const ONE_IN = 5;

interface Scenario {
  readonly honest: (index: number) => Caller;
  readonly attacker: (index: number) => Caller;
  readonly attackers?: number;
}

const HONEST = 0;
const ATTACKER = 1;

function run({ honest, attacker }: Scenario, lasts = 8_000) {
  const loop = new VirtualLoop();
  const chance = seededChance(7);
  const sender = (index: number): Sender =>
    index % ONE_IN === 0
      ? { caller: attacker(index / ONE_IN), cost: DEAR, group: ATTACKER }
      : {
          caller: honest(1_000 + Math.floor(chance() * HONEST_CALLERS)),
          cost: CHEAP,
          group: HONEST,
        };
  const usual: Sender = { caller: honest(1_000), cost: CHEAP, group: HONEST };
  loop.run({ cost: CHEAP, rate: 100, lasts: 5_100, sender: () => usual });
  const outcomes = loop.run({ cost: 0, rate: RATE, lasts, sender });
  return {
    loop,
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
  "one caller with its own address": { honest: ownAddress, attacker: () => ({ source: 1, key: 1 }) },
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
    console.log(name, judgedPart(honest), judgedPart(attacker), attacker.dear / attacker.shed);
    assert.ok(judgedPart(honest) >= 0.95, `${judgedPart(honest)} of the others`);
    assert.ok(attacker.shed > 0.5 * (attacker.judged + attacker.shed), `${attacker.shed} shed`);
    assert.ok(attacker.dear > 0.9 * attacker.shed, `${attacker.dear} of ${attacker.shed}`);
    assert.ok(attacker.judged > 0, "its part of the time is left to it");
  });
}
