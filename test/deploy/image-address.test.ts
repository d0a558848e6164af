// The address on which a process of the image listens: the program is started as the image would, without building it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { child } from "../kit/servers/child.ts";

const DOCKERFILE = readFileSync("deploy/Dockerfile", "utf8");

/** Variables of the configuration; the others concern Node. */
function variables(): Readonly<Record<string, string>> {
  const set = [...DOCKERFILE.matchAll(/^ENV (SVC_\w+)=(.*)$/gm)];
  return Object.fromEntries(set.map(([, name = "", value = ""]) => [name, value]));
}

function entrypoint(): readonly string[] {
  const [, json = ""] = /^ENTRYPOINT (\[.*\])$/m.exec(DOCKERFILE) ?? [];
  return JSON.parse(json);
}

test("a process of the image listens where other containers reach it", async (t) => {
  assert.deepEqual(variables(), { SVC_AGENT_SERVER_LISTENER_ADDR: ":8080" });
  const [node, ...args] = entrypoint();
  assert.equal(node, "node");
  const env = {
    PATH: process.env["PATH"],
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
    SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
    ...variables(),
  };
  const own = child(t, process.execPath, [...args, "standalone", "--policies", "deploy/policies"], {
    env,
  });
  const printed = () => own.out() + own.err();
  // Another program may have the port; the process then says which address it was told to listen on.
  const listens = /listening on (?:0\.0\.0\.0|\[::\]):8080\b/;
  const wanted =
    /cannot listen on server\.listener\.addr: the address is in use \((?:\[::\])?:8080\)/;
  await own.until("it listens, or says why not", () => /listening on|cannot/.test(printed()));
  assert.ok(listens.test(printed()) || wanted.test(printed()), printed());
});
