// The command in a process of its own, as it is installed: starts that fail, signals, and versions of Node.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  accessSync,
  constants,
  copyFileSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { folderOf } from "../kit/folder.ts";
import { child } from "../kit/servers/child.ts";
import { standalone, standaloneProcess } from "../kit/sluice/standalone.ts";
import { LIMITED, SLUICE } from "./setup.ts";

/** A line of a stack, on its own or inside a line of the log. */
const STACK = /\bat (async )?[\w.#<> ]*\(?(file|node):/;

describe("the real command", () => {
  const start = (
    t: TestContext,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ) =>
    child(t, process.execPath, [SLUICE, ...args], {
      cwd: folderOf(t),
      env: { PATH: process.env["PATH"], ...env },
    });

  it("ends with 64 and every fault of both trees when the configuration cannot be used", async (t) => {
    const sluice = start(t, ["standalone", "--policies", folderOf(t)], {
      SVC_AGENT_SERVER_LISTENER_ADR: ":1",
      SVC_AGENT_SERVER_HTTP_READ_TIMEOUT: "soon",
      SVC_CONTROLLER_LOG_LEVEL: "loud",
    });
    assert.equal(await sluice.ended, 64);
    assert.match(sluice.err(), /SVC_AGENT_SERVER_LISTENER_ADR/);
    assert.match(sluice.err(), /SVC_AGENT_SERVER_LISTENER_ADDR/, "the name that was meant");
    assert.match(sluice.err(), /read_timeout/);
    assert.match(sluice.err(), /log\.level/);
  });

  it("ends with 64 and every finding when a policy cannot be used at the start", async (t) => {
    const policies = folderOf(t);
    writeFileSync(
      join(policies, "p.yaml"),
      LIMITED.replace("60s", "1m").replace("selectors", "selector"),
    );
    const sluice = start(t, ["standalone", "--policies", policies]);
    assert.equal(await sluice.ended, 64);
    assert.match(sluice.err(), /p\.yaml:5:11/);
    assert.match(sluice.err(), /p\.yaml:9:/);
  });

  it("drains on SIGTERM, logs it to the last line, and ends with 0", async (t) => {
    const { child: sluice } = await standaloneProcess(t, { policies: {} });
    sluice.kill("SIGTERM");
    assert.equal(await sluice.ended, 0);
    const said = sluice.err().trimEnd().split("\n").slice(-2);
    assert.deepEqual(
      said.map((line) => JSON.parse(line).message),
      ["SIGTERM: draining", "drained"],
    );
  });

  it("keeps its exit code and reports nothing when its output is not read to the end", async (t) => {
    const sluice = start(t, ["agent", "config"]);
    sluice.process.stdout?.destroy();
    assert.equal(await sluice.ended, 0, sluice.err());
    assert.equal(sluice.err(), "");
  });

  it("ends with 69 and names the address when the port is taken", async (t) => {
    const { address } = await standalone(t, { policies: {} });
    const sluice = start(t, ["standalone", "--policies", folderOf(t)], {
      SVC_AGENT_SERVER_LISTENER_ADDR: address,
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
      SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
      SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
      SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
    });
    assert.equal(await sluice.ended, 69);
    const taken = `server.listener.addr: the address is in use (${address})`;
    assert.ok(sluice.err().includes(taken), sluice.err());
    assert.doesNotMatch(sluice.err(), STACK);
  });

  const loopback = {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
    SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
    SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
    SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
  };
  const unusable: Readonly<Record<string, readonly [Readonly<Record<string, string>>, RegExp]>> = {
    "a certificate": [
      {
        SVC_AGENT_SERVER_TLS_ENABLED: "true",
        SVC_AGENT_SERVER_TLS_CERT_FILE: "/nope/tls.crt",
        SVC_AGENT_SERVER_TLS_KEY_FILE: "/nope/tls.key",
      },
      /server\.tls\.cert_file: \/nope\/tls\.crt: wanted a file that can be read, got ENOENT/,
    ],
    "a certificate towards another server": [
      {
        SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: "127.0.0.1:1",
        SVC_AGENT_SERVER_TLS_ENABLED: "true",
        SVC_AGENT_SERVER_TLS_CERT_FILE: "/nope/tls.crt",
        SVC_AGENT_SERVER_TLS_KEY_FILE: "/nope/tls.key",
      },
      /server\.tls\.cert_file: \/nope\/tls\.crt: wanted a file that can be read, got ENOENT/,
    ],
    "a socket's path": [
      { SVC_AGENT_SERVER_LISTENER_ADDR: "unix:/nope/port.sock" },
      /server\.listener\.addr: (ENOENT|EACCES)/,
    ],
    "a log file": [
      { SVC_AGENT_LOG_WRITERS: '[{"file":"/dev/null/a.log"}]' },
      /log\.writers: wanted .* \/dev\/null\/a\.log, got E/,
    ],
  };
  for (const [what, [env, said]] of Object.entries(unusable)) {
    it(`ends with 64, one line and no stack for ${what} that cannot be used`, async (t) => {
      const sluice = start(t, ["standalone", "--policies", folderOf(t)], { ...loopback, ...env });
      assert.equal(await sluice.ended, 64, sluice.err());
      const last = sluice
        .err()
        .trimEnd()
        .split("\n")
        .filter((line) => /cannot start/.test(line));
      assert.equal(last.length, 1, sluice.err());
      assert.match(last[0] ?? "", said);
      assert.doesNotMatch(sluice.err(), STACK);
    });
  }

  it("ends with 64 and names --policies, or the document, that cannot be read", async (t) => {
    const none = start(t, ["standalone", "--policies", "/nope"], loopback);
    assert.equal(await none.ended, 64);
    assert.match(none.err(), /^sluice: --policies: wanted .* at \/nope, got ENOENT: [^\n]*\n$/);
    const policies = folderOf(t);
    mkdirSync(join(policies, "b.yaml"));
    const odd = start(t, ["standalone", "--policies", policies], loopback);
    assert.equal(await odd.ended, 64);
    assert.match(odd.err(), /cannot start: .*b\.yaml: wanted a regular file, got a directory/);
    assert.doesNotMatch(odd.err(), STACK);
  });
});

describe("the installed command", () => {
  const root = join(import.meta.dirname, "../..");
  /** Versions of Node that cannot run Sluice, of which the README names one. */
  const OTHERS = ["20.20.2", "24.14.9", "25.9.0"];
  const { bin, engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

  const under = (
    t: TestContext,
    node: string,
    args: readonly string[] = ["version"],
    command = join(root, bin.sluice),
  ) => {
    const faked = JSON.stringify({ ...process.versions, node });
    const versions = `Object.defineProperty(process, "versions", { value: ${faked} })`;
    const preload = `data:text/javascript,${encodeURIComponent(versions)}`;
    const env = { ...process.env, SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0" };
    return child(t, process.execPath, ["--import", preload, command, ...args], { env });
  };

  it("runs under each Node that `engines` names", async (t) => {
    assert.equal(engines.node, "^24.15 || >=26");
    accessSync(join(root, bin.sluice), constants.X_OK);
    for (const node of ["24.15.0", "26.0.0", "27.1.0"]) {
      const sluice = under(t, node);
      assert.equal(await sluice.ended, 0, sluice.err());
      assert.equal(sluice.out(), `sluice 0.1.0, Node ${node}\n`);
    }
  });

  it("runs by the Node of the checkout under any other one, with its exit codes and signals", async (t) => {
    for (const node of OTHERS) {
      const sluice = under(t, node);
      assert.equal(await sluice.ended, 0, sluice.err());
      assert.equal(sluice.out(), `sluice 0.1.0, Node ${process.versions.node}\n`);
    }
    const wrong = under(t, "20.20.2", ["policy", "check", "/nowhere"]);
    assert.notEqual(await wrong.ended, 0);
    assert.match(wrong.err(), /\/nowhere/);
    const server = under(t, "20.20.2", ["standalone", "--policies", folderOf(t)]);
    const said = () => server.out() + server.err();
    await server.until("it listens", () => /listening on/.test(said()));
    server.kill("SIGTERM");
    assert.equal(await server.ended, 0);
    assert.match(said(), /SIGTERM/);
  });

  it("is there after `npm install --global .`, whatever Node comes first on the path", async (t) => {
    const prefix = folderOf(t);
    execFileSync("npm", ["install", "--global", "--offline", "--prefix", prefix, root], {
      stdio: "pipe",
    });
    const command = join(prefix, "bin/sluice");
    for (const node of [...OTHERS, process.versions.node]) {
      const sluice = under(t, node, ["version"], command);
      assert.equal(await sluice.ended, 0, sluice.err());
    }
  });

  it("names in one line, under any other Node without a checkout, the version that is needed and how to get it", async (t) => {
    const alone = join(folderOf(t), "sluice.js");
    copyFileSync(join(root, bin.sluice), alone);
    writeFileSync(join(dirname(alone), "package.json"), '{"type":"module"}');
    for (const node of OTHERS) {
      const sluice = under(t, node, ["version"], alone);
      assert.equal(await sluice.ended, 69);
      assert.match(sluice.err(), /^sluice: wanted Node 24\.15 [^\n]*26[^\n]*npm ci[^\n]*\n$/);
      assert.ok(sluice.err().includes(node));
    }
  });
});
