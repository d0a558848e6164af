// Calls to another agent while the own certificates cannot be used, and after the end.

import assert from "node:assert/strict";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { callerOf } from "#counters/peers/exchange/transport.ts";
import { realClock } from "#runtime/life/clock.ts";
import { folderOf } from "../../kit/folder.ts";
import { authority } from "../../kit/servers/tls.ts";

test("certificates that cannot be used fail a call, and the next one reads them again", async (t) => {
  const folder = folderOf(t);
  const root = authority(folder, "root");
  const { certFile, keyFile } = root.issue("agent");
  const own = join(folder, "own.crt");
  writeFileSync(own, "half a certificate");
  const tls = {
    ca_file: root.certFile,
    cert_file: own,
    key_file: keyFile,
    allowed_cn: "",
  };
  const caller = callerOf("127.0.0.1:1", { tls, sharedKey: () => undefined, clock: realClock() });
  t.after(() => caller.close());
  await assert.rejects(caller.call("Take", new Uint8Array()), /dist_cache\.tls/);
  copyFileSync(certFile, own);
  await assert.rejects(caller.call("Take", new Uint8Array()), /ECONNREFUSED/);
});

test("a call after the end is refused, and opens no connection", async () => {
  const tls = { ca_file: "", cert_file: "", key_file: "", allowed_cn: "" };
  const key = { identity: "sluice", key: Buffer.alloc(32) };
  const caller = callerOf("127.0.0.1:1", { tls, sharedKey: () => key, clock: realClock() });
  caller.close();
  await assert.rejects(caller.call("Take", new Uint8Array()), /the connection was closed/);
});
