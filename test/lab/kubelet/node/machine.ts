// Runs a test file on a machine of its own, as far as Linux has one: its network, mounts and processes are in namespaces
// of their own, which end with it however it ends. So nothing of a cluster with living pods can be left behind.

import { spawnSync } from "node:child_process";
import { basename } from "node:path";
import { env, execPath, stdout } from "node:process";
import { test } from "node:test";
import { helm, kube } from "../../../../deploy/tools/go-tools.ts";
import { envoy, etcd, prometheus } from "../../../../deploy/tools/install.ts";
import { child } from "../../../kit/servers/child.ts";

const INSIDE = "SLUICE_TEST_MACHINE";
const NAMESPACES = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
/** Files of the control plane; /tmp may hold this very checkout. */
const TEMPORARY = "/run/tmp";
/** A /run of its own has the names of network namespaces and all files of pods. */
const SET_UP = `ip link set lo up && mount -t tmpfs tmpfs /run && mkdir /run/netns ${TEMPORARY}`;
const NEEDS = "needs root and Linux namespaces (unshare), for pods with networks of their own";

/** Declares the tests of a file in a process of its own, on a machine of its own. Without the means, they are skipped with the reason. */
export async function onOwnMachine(
  file: string,
  declare: () => void | Promise<void>,
): Promise<void> {
  if (env[INSIDE] !== undefined) {
    await declare();
    return;
  }
  const tried = spawnSync("unshare", [...NAMESPACES, "sh", "-c", SET_UP]);
  const skip = process.getuid?.() !== 0 || tried.status !== 0 ? NEEDS : false;
  test(`${basename(file)} on a machine of its own`, { skip }, async (t) => {
    // Programs that are missing come over the network, which that machine does not have.
    for (const install of [kube, helm, envoy, etcd, prometheus]) install();
    // Without NODE_TEST_CONTEXT the inner run prints what a person can read.
    const { NODE_TEST_CONTEXT: _, ...rest } = env;
    const inner = ["sh", "-c", `${SET_UP} && exec "$0" "$1"`, execPath, file];
    const args = ["--pdeathsig", "KILL", "--", "unshare", ...NAMESPACES, ...inner];
    const run = child(t, "setpriv", args, {
      env: { ...rest, TMPDIR: TEMPORARY, [INSIDE]: "1" },
    });
    const status = await run.ended;
    if (status !== 0) throw new Error(`ended with ${status}\n${run.out()}${run.err()}`);
    stdout.write(run.out());
  });
}
