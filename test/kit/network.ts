// Runs a test file in a network of its own, so that peers have addresses other than loopback's on any machine.

import { spawnSync } from "node:child_process";
import { networkInterfaces } from "node:os";
import { basename } from "node:path";
import { env, execPath } from "node:process";
import { test } from "node:test";
import { child } from "./servers/child.ts";

/** From TEST-NET-2 (RFC 5737). */
const ADDRESSES = ["198.51.100.1", "198.51.100.2"] as const;
const INSIDE = "SLUICE_TEST_NETWORK";
const UNSHARE = ["--map-root-user", "--net"];
const SET_UP = [
  "ip link set lo up",
  ...ADDRESSES.map((address) => `ip addr add ${address}/32 dev lo`),
].join(" && ");

/** Two addresses of this machine. Neither is loopback's, and a process can listen on and connect from either. */
export type Addresses = readonly [string, string];

/**
 * Declares the tests of a file in a process of its own, in a network namespace. Where the system does not permit one,
 * they run here with addresses of the machine, or are skipped if it has none.
 */
export function inOwnNetwork(file: string, declare: (addresses: Addresses) => void): void {
  if (env[INSIDE] !== undefined) {
    declare(ADDRESSES);
    return;
  }
  if (spawnSync("unshare", [...UNSHARE, "sh", "-c", SET_UP]).status === 0) {
    test(`${basename(file)} in a network namespace`, async (t) => {
      // Without NODE_TEST_CONTEXT the inner run prints what a person can read.
      const { NODE_TEST_CONTEXT: _, ...rest } = env;
      const run = child(
        t,
        "unshare",
        [...UNSHARE, "sh", "-c", `${SET_UP} && exec "$0" "$1"`, execPath, file],
        { env: { ...rest, [INSIDE]: "1" } },
      );
      if ((await run.ended) !== 0) throw new Error(run.out() + run.err());
    });
    return;
  }
  const [one, other = one] = Object.values(networkInterfaces())
    .flatMap((each = []) => each)
    .filter(({ family, internal }) => family === "IPv4" && !internal)
    .map(({ address }) => address);
  if (one !== undefined && other !== undefined) declare([one, other]);
  // Loopback is trusted more than other addresses, so it cannot stand in for one. `.ci/run` has the rights for the namespace
  // above and never comes here; a contributor without them sees in the output which file did not run.
  else
    void test.skip(`${basename(file)}: needs a network namespace, or an address besides loopback`);
}
