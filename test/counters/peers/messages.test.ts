// Requests between agents arrive as they were sent, and what makes no sense is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketRequest, LeaseRequest } from "#counters/leases/bucket-owner.ts";
import {
  readReplies,
  readTakes,
  type Take,
  type TakeReply,
  writeReplies,
  writeTakes,
} from "#counters/peers/exchange/messages.ts";
import { TEN_PER_SECOND } from "../../flow/counters/suite.ts";

const LIMITER = {
  name: { policyName: "policy", name: "limiter" },
  params: { ...TEN_PER_SECOND, lazySyncs: 0 },
};
const SLOTS = {
  name: { policyName: "policy", name: "slots" },
  params: undefined,
  slots: { max: 3, maxInflightMs: 1_000 },
};
const LEASE: LeaseRequest = {
  agent: 2 ** 47 + 1,
  turn: 7,
  unspent: 3,
  keep: 2,
  wish: 10,
  unit: 0.5,
  durationMs: 1_000,
};
const ONE: BucketRequest = {
  runs: [{ want: 1, times: 1 }],
  back: 0,
  overdraft: "refuse",
  lease: undefined,
};
const NOTHING = {
  granted: [1],
  tokens: 0,
  waitMs: 0,
  leased: 0,
  recall: false,
  full: false,
  inFlight: undefined,
};

const bucket = (request: Partial<BucketRequest>, lo = 5): Take => ({
  limiter: LIMITER,
  lo,
  hi: 6,
  request: { ...ONE, ...request },
});

test("takes with leases, runs and slots arrive as they were sent, and so do their replies", () => {
  const runs = [
    { want: 1, times: 3 },
    { want: 2.5, times: 1 },
  ];
  const takes: readonly Take[] = [
    bucket({}),
    bucket({ runs, lease: LEASE }),
    { kind: "take", limiter: SLOTS, lo: 1, hi: 2, amount: 1, id: "slot" },
    { kind: "end", limiter: SLOTS, lo: 1, hi: 2, id: "slot", unused: false },
    bucket({ runs: [], back: 4 }, 9),
    bucket({ runs: [], lease: { ...LEASE, turn: 8 } }),
    bucket({ overdraft: "owe" }),
    bucket({ runs, back: 2, lease: { ...LEASE, turn: 9 } }),
  ];
  const read = readTakes(writeTakes(takes));
  assert.deepEqual(
    read.map(({ limiter, request, ...rest }) => ({ name: limiter.name, request, ...rest })),
    takes.map(({ limiter, request, ...rest }) => ({ name: limiter.name, request, ...rest })),
  );
  const replies: readonly TakeReply[] = [
    { ...NOTHING, tokens: 9 },
    { ...NOTHING, granted: [2, 0], tokens: 0.5, waitMs: 50, leased: 12, recall: true },
    { ...NOTHING, granted: [0], tokens: 3, full: true },
    { ...NOTHING, granted: [1] },
    { ...NOTHING, granted: [] },
    { ...NOTHING, granted: [], leased: 3 },
    "retry",
    { ...NOTHING, granted: [3, 1], leased: 1 },
  ];
  assert.deepEqual(readReplies(takes, writeReplies(takes, replies)), replies);
});

test("replies that are missing are undefined", () => {
  const takes = [bucket({}), bucket({})];
  const one = writeReplies(takes.slice(0, 1), [NOTHING]);
  assert.deepEqual(readReplies(takes, one), [NOTHING, undefined]);
});

test("a lease that makes no sense is refused", () => {
  const numbers = { unit: 0, wish: Number.NaN, keep: -1, durationMs: Number.POSITIVE_INFINITY };
  for (const [key, value] of Object.entries(numbers)) {
    const message = writeTakes([bucket({ lease: { ...LEASE, [key]: value } })]);
    assert.throws(() => readTakes(message), /wanted numbers of a lease/, key);
  }
  const two = [
    { want: 1, times: 1 },
    { want: -2, times: 1 },
  ];
  const late = writeTakes([bucket({ runs: two, lease: LEASE })]);
  assert.throws(() => readTakes(late), /tokens that come back first/);
});

test("the bounds of an adaptive limit, slots that were not used and what is in flight arrive as well", () => {
  const adaptive = { min: 2, max: 3, start: 3, tolerance: 1.5 };
  const limiter = { ...SLOTS, slots: { ...SLOTS.slots, adaptive } };
  const takes: readonly Take[] = [
    { kind: "take", limiter, lo: 1, hi: 2, amount: 1, id: "slot" },
    { kind: "end", limiter, lo: 1, hi: 2, id: "slot", unused: true },
    { kind: "end", limiter, lo: 1, hi: 2, id: "slot", unused: false },
  ];
  const read = readTakes(writeTakes(takes));
  assert.deepEqual(
    read.map(({ limiter: { slots } }) => slots),
    takes.map(({ limiter: { slots } }) => slots),
  );
  assert.deepEqual(
    read.map((take) => take.request === undefined && take.kind === "end" && take.unused),
    [false, true, false],
  );
  const replies = [5, 0, 0].map((inFlight) => ({ ...NOTHING, inFlight }));
  assert.deepEqual(readReplies(takes, writeReplies(takes, replies)), replies);
});

test("bounds of an adaptive limit that contradict each other are refused", () => {
  const adaptive = { min: 5, max: 3, start: 2, tolerance: 1.5 };
  const limiter = { ...SLOTS, slots: { ...SLOTS.slots, adaptive } };
  const bytes = writeTakes([{ kind: "take", limiter, lo: 1, hi: 2, amount: 1, id: "slot" }]);
  assert.throws(() => readTakes(bytes), /bounds of an adaptive limit in order/);
});
