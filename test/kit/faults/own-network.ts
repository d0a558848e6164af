// A network of its own for this process, in which ports can be cut off: nothing that is sent to or from them arrives,
// and connections to them stay open.

import { execFileSync, spawnSync } from "node:child_process";
import { argv, env, execPath, exit } from "node:process";

const INSIDE = "SLUICE_OWN_NETWORK";

/** Rules that come before the first one, by which everything on this machine is reached, need it to be further down. */
const SET_UP = [
  "ip link set lo up",
  "ip rule add pref 100 lookup local",
  "ip rule del pref 0",
  'exec "$0" "$@"',
].join(" && ");

/** Starts this program again in a network namespace, unless it is there already, and ends with it. */
export function enterOwnNetwork(): void {
  if (env[INSIDE] !== undefined) return;
  const inside = ["--map-root-user", "--net", "sh", "-c", SET_UP, execPath, ...argv.slice(1)];
  const options = { stdio: "inherit", env: { ...env, [INSIDE]: "1" } } as const;
  exit(spawnSync("unshare", inside, options).status ?? 1);
}

/** Cuts off these ports, for TCP and UDP. The returned function heals that. */
export function cutPorts(ports: readonly number[]): () => void {
  if (env[INSIDE] === undefined) throw new Error("only in a network of its own");
  const rules = ports.flatMap((port) =>
    ["tcp", "udp"].flatMap((protocol) =>
      ["dport", "sport"].map((end) => ["pref", "1", "ipproto", protocol, end, String(port)]),
    ),
  );
  for (const rule of rules) execFileSync("ip", ["rule", "add", ...rule, "blackhole"]);
  return () => {
    for (const rule of rules) execFileSync("ip", ["rule", "del", ...rule, "blackhole"]);
  };
}
