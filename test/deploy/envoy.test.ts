// Compares the configurations of deploy/envoy with each other, and lets Envoy judge every bootstrap that Sluice ships.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parse } from "yaml";
import { envoy } from "../../deploy/tools/install.ts";
import { ACCESS_LOGS, AT, Bootstrap, endpointOf, SHIPPED } from "../kit/servers/bootstrap.ts";

interface Parsed {
  readonly static_resources: {
    readonly clusters: readonly {
      readonly name: string;
      readonly load_assignment: {
        readonly endpoints: { readonly priority?: number; readonly lb_endpoints: unknown[] }[];
      };
    }[];
  };
}

const bootstrap = (file: string): Parsed =>
  parse(readFileSync(new URL(`../../deploy/envoy/${file}`, import.meta.url), "utf8"));

test("two-agents.yaml differs from sidecar.yaml in the second endpoint only", () => {
  const two = bootstrap("two-agents.yaml");
  const sluice = two.static_resources.clusters.find(({ name }) => name === "sluice");
  const { endpoints } = sluice?.load_assignment ?? {};
  assert.deepEqual(endpoints?.pop(), { priority: 1, lb_endpoints: [endpointOf("127.0.0.1:8081")] });
  assert.deepEqual(two, bootstrap("sidecar.yaml"));
});

const ADDRESSES = { agent: "127.0.0.1:8080", service: 9_000 };
/** Fields that Envoy 1.40 reads under `common_config` only. It accepts the last two beside it and ignores them. */
const COMMON = ["log_name", "grpc_service", "buffer_flush_interval", "buffer_size_bytes"];

for (const bootstrap of SHIPPED) {
  for (const accessLog of [undefined, ...ACCESS_LOGS]) {
    test(`Envoy knows and reads every field of ${bootstrap} with ${accessLog ?? "its own access log"}`, () => {
      const of = new Bootstrap({
        bootstrap,
        ...ADDRESSES,
        ...(bootstrap === "sidecar-unix.yaml" && { agent: "unix:/run/sluice.sock" }),
        ...(bootstrap === "two-agents.yaml" && { otherAgent: "127.0.0.1:8081" }),
      });
      if (accessLog !== undefined) of.accessLogOf(accessLog);
      // Unknown fields of a bootstrap are refused unless --allow-unknown-static-fields is given.
      const strict = ["--mode", "validate", "--reject-unknown-dynamic-fields"];
      execFileSync(envoy(), [...of.args, ...strict], { stdio: "pipe" });
      assert.throws(() => {
        of.set([...AT.accessLog, 1, "typed_config", "unknown"], true);
        execFileSync(envoy(), [...of.args, ...strict], { stdio: "pipe" });
      }, /unknown/);
      of.remove([...AT.accessLog, 1, "typed_config", "unknown"]);
      const { typed_config: log } = of.get([...AT.accessLog, 1]) as AccessLog;
      assert.equal(log.common_config?.["buffer_size_bytes"], 0);
      const ignored = COMMON.filter((name) => name in log);
      assert.deepEqual(ignored, []);
    });
  }
}

interface AccessLog {
  readonly typed_config: {
    readonly common_config?: Readonly<Record<string, unknown>>;
  };
}
