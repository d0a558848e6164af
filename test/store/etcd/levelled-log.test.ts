import assert from "node:assert/strict";
import { test } from "node:test";
import { levelledLog } from "#store/etcd/levelled-log.ts";
import { memoryLog } from "../../kit/sluice/log.ts";

test("lines below the level of the etcd client's log are left out, those of children too", () => {
  const all = ["debug", "info", "warn", "error"] as const;
  for (const [level, written] of [
    ["debug", all],
    ["info", all.slice(1)],
    ["WARN", all.slice(2)],
    ["error", all.slice(3)],
    // Every level above means error, and so does none.
    ["fatal", all.slice(3)],
    ["", all.slice(3)],
  ] as const) {
    const log = memoryLog();
    const levelled = levelledLog(log, level);
    for (const each of all) {
      levelled[each]({}, "own");
      levelled.child("lease")[each]({}, "of a child");
    }
    assert.deepEqual(
      log.lines.map((line) => `${line.level} ${line.message}`),
      written.flatMap((each) => [`${each} own`, `${each} of a child`]),
      level,
    );
  }
});
