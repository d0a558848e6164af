// True if an operator sees that callers send members that no check has.

import assert from "node:assert/strict";
import { test } from "node:test";
import { tellUnknownMembers } from "#agent/warnings/unknown-members.ts";
import { call } from "../../kit/sluice/check.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { counted } from "../../kit/sluice/scrape.ts";
import { agentOn } from "../setup.ts";

test("members that a JSON message does not have are ignored, counted, and named once in the log", async (t) => {
  const { address, lines } = await agentOn(t);
  const post = async (route: string, body: object) => {
    const { status } = await call(address, "POST", `/v1/flowcontrol/${route}`, body);
    assert.equal(status, 200, route);
  };
  for (let twice = 0; twice < 2; twice++) {
    await post("checkhttp", {
      control_point: "a",
      lables: {},
      request: { headers: { lables: "b" } },
    });
    await post("checkhttp", { control_point: "a", request: { paht: "/" }, destination: null });
    await post("check", { control_point: "a", labls: {}, labels: { any: "name" } });
    await post("check", { control_point: "a", cache_lookup_request: { key: "k" } });
    await post("flowend", {
      reservation: "r",
      inflight_requests: [{ request_id: "r", lable: "l" }],
    });
  }
  const named = lines.flatMap(({ level, message, fields }) =>
    message.includes("unknown field") ? [{ level, ...fields }] : [],
  );
  const warning = (member: string, meant?: string) => ({
    level: "warn",
    member,
    ...(meant && { meant }),
  });
  assert.deepEqual(named, [
    warning("lables"),
    warning("request.paht", "path"),
    warning("labls", "labels"),
    warning("cache_lookup_request.key"),
    warning("reservation", "reservationId"),
    warning("inflight_requests.lable", "label"),
  ]);
  assert.equal((await counted(address, "sluice_anomalies_total", "kind"))["unknown_member"], 12);
});

test("of names that callers invent, a hundred are named, and their beginnings", () => {
  const log = memoryLog();
  let count = 0;
  const tell = tellUnknownMembers(log, { anomaly: () => count++ });
  for (let at = 0; at < 150; at++) tell(`${at}${"x".repeat(100_000)}`, new Map([["labels", 1]]));
  assert.equal(count, 150);
  assert.equal(log.lines.length, 100);
  assert.equal(String(log.lines[0]?.fields["member"]).length, 64);
});
