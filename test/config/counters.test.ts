// The bounds of the counters' settings that concern more than one key or room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ConfigFault } from "#config/fault.ts";
import { loadConfig } from "#config/load.ts";
import { LONGEST_LEASE_MS } from "#counters/leases/bucket-owner.ts";

function load(duration: string) {
  const env = { SVC_AGENT_COUNTERS_LEASE_DURATION: duration };
  return loadConfig("agent", { env, configPath: undefined, dotenvDir: "/nowhere" });
}

test("a lease is at most as long as the home counts it", () => {
  const { config } = load(`${LONGEST_LEASE_MS}ms`);
  assert.equal(config.counters.lease.duration, LONGEST_LEASE_MS);
  assert.throws(
    () => load(`${LONGEST_LEASE_MS + 1}ms`),
    (thrown) => thrown instanceof ConfigFault && /at most 1m, got/.test(thrown.message),
  );
});

test("files for TLS are refused where the URL of Redis does not ask for TLS", () => {
  const withUrl = (url: string) => {
    const env = {
      SVC_AGENT_COUNTERS_REDIS_URL: url,
      SVC_AGENT_COUNTERS_REDIS_TLS_CA_FILE: "/etc/ca.pem",
    };
    return loadConfig("agent", { env, configPath: undefined, dotenvDir: "/nowhere" });
  };
  assert.equal(withUrl("rediss://redis:6379").config.counters.redis.tls.ca_file, "/etc/ca.pem");
  assert.throws(
    () => withUrl("redis://redis:6379"),
    (thrown) =>
      thrown instanceof ConfigFault &&
      /counters\.redis\.tls\.ca_file .*: wanted nothing, because url does not begin with rediss:/.test(
        thrown.message,
      ),
  );
});
