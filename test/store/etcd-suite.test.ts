// The store's suite over real etcd servers: the oldest and the newest version, alone and as a cluster of three, with and
// without TLS, client certificates and users.

import { before, describe } from "node:test";
import type { EtcdSettings } from "#store/etcd.ts";
import { type Ending, suiteEnding } from "../kit/ending.ts";
import { ETCD_VERSIONS, type Etcd, enableUsers, startEtcd } from "../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../kit/etcd/store.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { storeSuite } from "./suite.ts";

/** Runs the suite; each test has a namespace of its own. */
function suiteOver(
  name: string,
  start: (test: Ending) => Promise<readonly [Etcd, Partial<EtcdSettings>]>,
): void {
  describe(name, () => {
    let started: readonly [Etcd, Partial<EtcdSettings>];
    let opened = 0;
    const ending = suiteEnding();
    before(async () => {
      started = await start(ending);
    });
    storeSuite(name, async () => {
      const [{ endpoints }, changed] = started;
      const namespace = `aperture-${++opened}`;
      return openEtcd(undefined, etcdSettings(endpoints, { namespace, ...changed }));
    });
  });
}

for (const version of ETCD_VERSIONS) {
  suiteOver(`etcd ${version}`, async (test) => [await startEtcd(test, { version }), {}]);
}

suiteOver("etcd, three members", async (test) => [await startEtcd(test, { members: 3 }), {}]);

suiteOver("etcd 3.4 with users", async (test) => {
  const etcd = await startEtcd(test, { version: "3.4" });
  const user = { name: "ann", password: "secret" };
  await enableUsers(etcd, user);
  return [etcd, { username: user.name, password: user.password }];
});

suiteOver("etcd 3.5 with TLS, client certificates and users", async (test) => {
  const folder = temporaryFolder(test);
  const root = authority(folder, "root");
  const client = root.issue("client");
  const tls = { server: root.issue("server"), authorityFile: root.certFile, client };
  const etcd = await startEtcd(test, { tls });
  await enableUsers(etcd, { name: "ann", password: "secret" });
  const files = { ca_file: root.certFile, cert_file: client.certFile, key_file: client.keyFile };
  return [
    etcd,
    {
      username: "ann",
      password: "secret",
      tls: { ...files, insecure_skip_verify: false, key_log_file: "" },
    },
  ];
});
