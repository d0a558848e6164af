import assert from "node:assert/strict";
import { test } from "node:test";
import { warnOfDefaultControlPoint } from "#agent/warnings/control-point.ts";
import { StatusNode } from "#runtime/status/status.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";

function watched(configured: string) {
  const root = new StatusNode(fakeClock());
  const log = memoryLog();
  const changed = warnOfDefaultControlPoint({ health: { root }, log } as never, configured);
  const error = () => root.view().groups["system:default-control-point"]?.status?.error?.message;
  return { changed, log, error };
}

test("a default control point that no policy names is told once, as long as there are policies", () => {
  const { changed, log, error } = watched("ingres");
  changed([]);
  assert.equal(error(), undefined);
  changed(["ingress"]);
  assert.match(
    error() ?? "",
    /no policy names the control point "ingres" of flow_control\.default/,
  );
  changed(["ingress", "egress"]);
  assert.equal(log.lines.length, 1);
  changed(["ingress", "ingres"]);
  assert.equal(error(), undefined);
  changed(["ingress"]);
  assert.equal(log.lines.length, 2);
});

test("without a default control point there is nothing to tell", () => {
  const { changed, log, error } = watched("");
  changed(["ingress"]);
  assert.deepEqual([log.lines, error()], [[], undefined]);
});
