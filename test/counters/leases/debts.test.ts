// Tokens that flows turned out to have cost beyond what they took, while the owner of their bucket is away.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketOwner, BucketReply } from "#counters/leases/bucket-owner.ts";
import { Debts } from "#counters/leases/debts.ts";
import { LeaseHolder } from "#counters/leases/lease-holder.ts";
import { fakeClock } from "../../kit/clock.ts";

const REPLY = { granted: [1], tokens: 0, waitMs: 0, leased: 0, recall: false, full: false };

interface Asked {
  readonly value: string | undefined;
  readonly tokens: number;
  readonly answered: (reply: BucketReply | undefined) => void;
  readonly late: (reply: BucketReply) => void;
}

function benchOf() {
  const clock = fakeClock();
  const asked: Asked[] = [];
  const owner: BucketOwner & { away: boolean } = {
    away: false,
    ask(value, { runs, overdraft }, answered, late) {
      if (owner.away) return false;
      assert.equal(overdraft, "owe");
      asked.push({ value, tokens: runs[0]?.want ?? 0, answered, late });
      return true;
    },
  };
  const told = () => asked.splice(0).map(({ value, tokens }) => [value, tokens]);
  const settings = { enabled: true, duration: 1_000, max_keys: 1_000 };
  const agent = new LeaseHolder(1, clock, settings);
  return { clock, owner, asked, told, counts: agent.counts, debts: new Debts(agent, owner) };
}

test("a debt that the owner knows of is not reported again", () => {
  const { clock, debts, asked, told } = benchOf();
  debts.charge("a", 5);
  asked[0]?.answered(REPLY);
  assert.deepEqual(told(), [["a", 5]]);
  clock.advance(10_000);
  assert.deepEqual(told(), []);
  assert.equal(clock.alarms, 0);
});

test("debts wait for a owner that is away or does not answer, those of one key together", () => {
  const { clock, owner, debts, asked, told } = benchOf();
  debts.charge("a", 5);
  asked[0]?.answered(undefined);
  owner.away = true;
  debts.charge("a", 2);
  debts.charge(undefined, 1);
  told();
  clock.advance(5_000);
  assert.deepEqual(told(), []);
  owner.away = false;
  clock.advance(1_000);
  assert.deepEqual(told(), [
    ["a", 7],
    [undefined, 1],
  ]);
});

test("a debt that arrived although its answer was late is not charged twice", () => {
  const { clock, debts, asked, told } = benchOf();
  debts.charge("a", 5);
  debts.charge("a", 3);
  for (const { answered } of asked) answered(undefined);
  asked[0]?.late(REPLY);
  told();
  clock.advance(1_000);
  assert.deepEqual(told(), [["a", 3]]);
});

test("a late answer forgives nothing that was reported again meanwhile, nor newer debts of its key", () => {
  const { clock, debts, asked, told } = benchOf();
  debts.charge("a", 5);
  const [first] = asked;
  first?.answered(undefined);
  told();
  clock.advance(1_000);
  const [again] = asked;
  assert.deepEqual(told(), [["a", 5]]);
  debts.charge("a", 3);
  asked[0]?.answered(undefined);
  told();
  first?.late(REPLY);
  again?.answered(REPLY);
  clock.advance(1_000);
  assert.deepEqual(told(), [["a", 3]]);
});

test("debts of 10 000 keys wait, and none after the end; those that are lost are counted", () => {
  const { clock, owner, debts, counts, told } = benchOf();
  owner.away = true;
  for (let key = 0; key < 10_001; key++) debts.charge(String(key), 1);
  owner.away = false;
  clock.advance(1_000);
  assert.equal(told().length, 10_000);
  assert.equal(counts.lost, 1);
  owner.away = true;
  debts.charge("a", 2);
  debts.close();
  debts.charge("b", 4);
  assert.equal(counts.lost, 7);
  owner.away = false;
  clock.advance(10_000);
  assert.deepEqual(told(), []);
});
