// The bootstrap of the injected Envoy is that of deploy/envoy/sidecar.yaml, reachable from outside the pod.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { envoyBootstrap, TRAFFIC } from "../../../src/injector/mutation/envoy.ts";

test("the bootstrap is the shipped one with the ports of the pod", () => {
  const file = join(import.meta.dirname, "../../../deploy/envoy/sidecar.yaml");
  const shipped = parse(readFileSync(file, "utf8"));
  const [listener] = shipped.static_resources.listeners;
  assert.equal(listener.address.socket_address.address, "127.0.0.1");
  listener.address.socket_address.address = "0.0.0.0";
  const ports = { envoy: 10_000, admin: 9_901, agent: 8_080, application: 9_000 };
  assert.deepEqual(envoyBootstrap(ports, "IPv4", TRAFFIC), shipped);
  Object.assign(listener.address.socket_address, { address: "::", ipv4_compat: true });
  assert.deepEqual(envoyBootstrap(ports, "IPv6", TRAFFIC), shipped);
  const other = { envoy: 1, admin: 2, agent: 3, application: 4 };
  const moved = JSON.stringify(envoyBootstrap(other, "IPv4", TRAFFIC));
  assert.deepEqual(moved.match(/(?<="port_value":)\d+/g), ["2", "1", "3", "4", "4"]);
});
