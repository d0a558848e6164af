// The members that count, as the records of agents say. Records may be of other versions, or damaged.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RingRecords } from "#counters/peers/membership/ring-records.ts";
import type { Member } from "#fleet/members.ts";
import { memoryLog } from "../../kit/sluice/log.ts";

const record = (name: string, services: Member["services"], id = `id-${name}`): Member => ({
  group: "default",
  address: name,
  hostname: name,
  services,
  id,
});
const counting = (name: string, counters: string, probes?: string) =>
  record(name, {
    "sluice-counters": counters,
    ...(probes === undefined ? {} : { "sluice-counters-probes": probes }),
  });

test("agents that count otherwise, or have no id, are no members; probes are optional", () => {
  const log = memoryLog();
  const found = new RingRecords(log).membersOf([
    counting("a", "10.0.0.1:3320", "[fe80::1%eth0]:3322"),
    record("b", { "sluice-counters-redis": "redis" }),
    record("c", { "sluice-counters": "c:3320" }, ""),
    counting("d", "my_host-1.internal:65535"),
  ]);
  assert.deepEqual(found, [
    { name: "a", id: "id-a", address: "10.0.0.1:3320", probe: "[fe80::1%eth0]:3322" },
    { name: "d", id: "id-d", address: "my_host-1.internal:65535", probe: undefined },
  ]);
  assert.deepEqual(log.lines, []);
});

const UNUSABLE = ["", "10.0.0.1", "10.0.0.1:abc", "a:0", "a:65536", "a:-1", "a:1e3", ":1", "a b:1"];

test("an address that cannot be used concerns its own agent only, and is logged once", () => {
  for (const bad of [...UNUSABLE, "a\0:1", `${"a".repeat(256)}:1`]) {
    const log = memoryLog();
    const records = new RingRecords(log);
    const list = [counting("a", bad), counting("b", "b:1", bad), counting("c", "c:1", "c:2")];
    for (let times = 0; times < 2; times++) {
      assert.deepEqual(records.membersOf(list), [
        { name: "b", id: "id-b", address: "b:1", probe: undefined },
        { name: "c", id: "id-c", address: "c:1", probe: "c:2" },
      ]);
    }
    const got = JSON.stringify(bad.slice(0, 100));
    assert.deepEqual(
      log.lines.map(({ message }) => message),
      [
        `record of peer a: it does not count: wanted host:port as sluice-counters, got ${got}`,
        `record of peer b: it is not probed: wanted host:port as sluice-counters-probes, got ${got}`,
      ],
    );
    records.membersOf([]);
    records.membersOf(list);
    assert.equal(log.lines.length, 4, "a record that comes back is reported again");
  }
});
