// The table of what stands in for a limiter: each failure mode, with and without numbers that were valid before.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FAILURE_MODES, standInOf } from "#base/failure-mode.ts";

test("open and closed are what they say, the others follow the default until numbers are known", () => {
  const wanted = {
    open: { known: ["open", "open"], unknown: ["open", "open"] },
    closed: { known: ["closed", "closed"], unknown: ["closed", "closed"] },
    local: { known: ["open", "closed"], unknown: ["open", "closed"] },
    last_known: { known: ["last_known", "last_known"], unknown: ["open", "closed"] },
  };
  const standIns = (mode: (typeof FAILURE_MODES)[number] | undefined, known: boolean) =>
    (["open", "closed"] as const).map((byDefault) => standInOf(mode, byDefault, known));
  for (const mode of FAILURE_MODES) {
    const found = { known: standIns(mode, true), unknown: standIns(mode, false) };
    assert.deepEqual(found, wanted[mode], mode);
  }
  assert.deepEqual(standIns(undefined, true), ["open", "closed"], "no mode is named");
});
